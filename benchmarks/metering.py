"""What each part of a search's driver costs, event by event, while it runs."""

import gc
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

ELSEWHERE = "elsewhere"
"""What is no cost of the driver: the simulated trials' own work."""
CONTROLLER = "Ray's controller"
_EVENTS = {"train": "result", "save": "result", "start": "start", "reset": "start", "stop": "end"}
"""A result is followed by its checkpoint: both are counted as its cost."""
_ONE_EACH = {"result": ("train",), "start": ("start", "reset")}
"""The steps of which each event has one; a trial ends in whatever step the controller stops it."""


@dataclass(frozen=True)
class Cost:
    """Of something that was done once.

    Attributes:
        cpu: Seconds of this thread.
        wall: Seconds on the clock, waiting for disk and processor included.
    """

    cpu: float = 0.0
    wall: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu + other.cpu, self.wall + other.wall)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu - other.cpu, self.wall - other.wall)

    def __truediv__(self, count: float) -> "Cost":
        return Cost(self.cpu / count, self.wall / count)


def now() -> Cost:
    """To be subtracted from a later one."""
    return Cost(time.thread_time(), time.perf_counter())


@dataclass
class _Step:
    kind: str = "idle"
    costs: dict[tuple[str, str], Cost] = field(default_factory=lambda: defaultdict(Cost))


def _is_one(step: _Step, event: str) -> bool:
    return ("end", CONTROLLER) in step.costs if event == "end" else step.kind in _ONE_EACH[event]


class Meter:
    """Wraps entry points while it is entered. What is measured inside of something else is taken off that.

    Attributes:
        calls: By part, what each call of those that ``listed`` cost.
        pauses: What each full run of Python's garbage collector cost, whichever thread set it off. They are rare, and
            long where there are many trials: no mean of a few events tells what they come to.
    """

    def __init__(self) -> None:
        self.calls: dict[str, list[Cost]] = defaultdict(list)
        self.pauses: list[Cost] = []
        self._collecting: Cost | None = None
        self._steps: list[_Step] = []
        self._step = _Step()
        self._inside: list[Cost] = []
        self._patches = ExitStack()

    def __enter__(self) -> "Meter":
        gc.callbacks.append(self._collected)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._collected)
        self._patches.close()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2 or not self._inside:
            return
        if phase == "start":
            self._collecting = now()
        elif self._collecting is not None:
            self.pauses.append(now() - self._collecting)
            self._collecting = None
            if threading.current_thread() is threading.main_thread():
                self._inside[-1] += self.pauses[-1]

    def wrap(self, owner: Any, method: str, part: str, event: str = "", *, listed: bool = False) -> None:
        """Count the time in ``owner.method`` as ``part`` of ``event``; without one, of what the step is about."""
        original = getattr(owner, method)

        def timed(*given: Any, **named: Any) -> Any:
            with self.span(part, event, listed=listed):
                return original(*given, **named)

        self._patches.enter_context(mock.patch.object(owner, method, timed))

    def wrap_step(self, owner: Any, method: str) -> None:
        """Take ``owner.method`` for what handles one event: one step."""
        original = getattr(owner, method)

        def timed(*given: Any) -> Any:
            with self.span(CONTROLLER):
                result = original(*given)
            self._steps.append(self._step)
            self._step = _Step()
            return result

        self._patches.enter_context(mock.patch.object(owner, method, timed))

    def tell(self, kind: str) -> None:
        """What the step is about."""
        self._step.kind = kind

    @contextmanager
    def span(self, part: str, event: str = "", *, listed: bool = False) -> Iterator[None]:
        """Count the time inside as ``part`` of ``event``."""
        self._inside.append(Cost())
        started = now()
        try:
            yield
        finally:
            whole = now() - started
            own = whole - self._inside.pop()
            if self._inside:
                self._inside[-1] += whole
            self._step.costs[event, part] += own
            if listed:
                self.calls[part].append(whole)

    def elsewhere(self) -> Any:
        """Time that is not the driver's."""
        return self.span(ELSEWHERE, ELSEWHERE)

    def count(self, event: str) -> int:
        """How many there were: results, starts or ends of trials."""
        return sum(_is_one(step, event) for step in self._steps)

    def at_the_end(self, event: str, last: int) -> dict[str, Cost]:
        """What ``event`` costs by part: the mean of the last ``last``, with what is done for them between."""
        found: dict[str, Cost] = defaultdict(Cost)
        seen = 0
        for step in reversed(self._steps):
            for (of, part), cost in step.costs.items():
                if (of or _EVENTS.get(step.kind, step.kind)) == event:
                    found[part] += cost
            seen += _is_one(step, event)
            if seen == last:
                break
        return {part: cost / max(1, seen) for part, cost in found.items()}

    def shares(self) -> Counter[str]:
        """Wall seconds by part, over everything."""
        total: Counter[str] = Counter()
        for step in self._steps:
            for (_, part), cost in step.costs.items():
                total[part] += cost.wall  # type: ignore[assignment]
        return total


def timed(call: Callable[[], Any]) -> tuple[Any, Cost]:
    """What ``call`` returns, and what it cost."""
    started = now()
    result = call()
    return result, now() - started
