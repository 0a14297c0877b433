"""Carries out what a policy decides: who trains until when, and what was decided before a kill is decided again."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tune_mtl.ray_tune.thaw.policy import Begin, GoOn, Policy, Step, Tuning
from tune_mtl.tracking.replay import Replay

KEPT = 3
"""The checkpoints of so many paused trials of each tuning are kept: of the best. Another one that is thawed after all
starts again, and comes to the same numbers."""

Recorder = Callable[[int, Mapping[str, Any]], None]
"""Keeps a decision, by its number, before it is carried out."""


class Conductor:
    """Knows how far each trial is and how far it may go, asks the policy for the next step, and remembers the answer.

    Every decision is numbered and recorded before it is carried out. A resume goes on from a snapshot, which is older
    than the last decision: the recorded ones are taken again, in their order, until the record ends; then the policy
    is asked. So no trial that went on before a kill is left behind, however differently workers come back.

    Attributes:
        policy: Who decides.
        replay: What was decided before a resume.
        record: Keeps decisions.
        until: How far the trials go that train now or are to: by name, in the order in which they were decided.
        reached: How far each trial has come; 0 before its first evaluation.
        tunings: Whose trial each is.
        over: Whether nothing is left to be decided: every budget is spent.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.replay = Replay()
        self.record: Recorder = _nowhere
        self.until: dict[str, float] = {}
        self.reached: dict[str, float] = {}
        self.tunings: dict[str, Tuning] = {}
        self.over = False
        self._grown = False
        self._gone: set[str] = set()
        self._decided = 0
        self._next: Step | None = None
        self._asked_in_vain = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave out who records."""
        return {**self.__dict__, "record": _nowhere}

    def follow(self, policy: Policy, *, grown: bool) -> None:
        """Have another policy of the same kind decide after a resume; ``grown``: it has more to spend than before."""
        self.policy, self._grown = policy, grown

    def step(self) -> Step | None:
        """Return what a free slot does next: the same until it is taken; None: there is nothing to do now."""
        if self._next is None:
            self._next = self._decide(self.until)
        return self._next

    @property
    def needed(self) -> list[str]:
        """The trials that train now or are next."""
        return [*self.until, *([self._next.trial] if isinstance(self._next, GoOn) else [])]

    def go_on(self) -> str:
        """Take the next step, by which a paused trial trains on; returns the trial."""
        assert isinstance(self._next, GoOn)
        step, self._next = self._next, None
        self.until[step.trial] = step.until
        return step.trial

    def begin(self, trial: str, tuning: Tuning, config: Mapping[str, Any]) -> None:
        """Take the next step, by which a new trial begins; it has got its config."""
        assert isinstance(self._next, Begin)
        step, self._next = self._next, None
        self.until[trial], self.reached[trial], self.tunings[trial] = step.until, 0.0, tuning
        self._asked_in_vain = False
        self.policy.begun(trial, tuning, config)

    def seen(self, trial: str, reached: float, value: float) -> None:
        """Note an evaluation; a trial that starts again from an older checkpoint reports again what is known."""
        self._asked_in_vain = False
        self.policy.seen(trial, reached, value)
        self.reached[trial] = max(reached, self.reached.get(trial, 0.0))

    def goes_on(self, trial: str, reached: float) -> bool:
        """Return whether a trial goes on after an evaluation, or pauses since its slot has another use."""
        if reached < self.until.get(trial, 0.0):
            return True
        if self._next is None:
            self._next = self._decide([name for name in self.until if name != trial], leaving=trial)
        if isinstance(self._next, GoOn) and self._next.trial == trial:
            self.go_on()
            return True
        self.until.pop(trial, None)
        return False

    def owe(self, trial: str) -> None:
        """Have a trial train again up to where it was: its checkpoint is older than what it has reported."""
        self.until.setdefault(trial, self.reached[trial])

    def hopeless(self) -> set[str]:
        """Return the trials that will never go on, although they have not ended: their tunings' budgets are spent."""
        open_ = set() if self.over else {*self.policy.open}
        found = {trial for trial, tuning in self.tunings.items() if tuning not in open_}
        return found.difference(self._gone, self.needed)

    def ended(self, trial: str, *, diverged: bool = False, failed: bool = False) -> None:
        """Note, once, that a trial will not go on."""
        if trial in self._gone:
            return
        self._gone.add(trial)
        self.until.pop(trial, None)
        if isinstance(self._next, GoOn) and self._next.trial == trial:
            self._next = None
        self._asked_in_vain = False
        self.policy.ended(trial, reached=self.reached.get(trial, 0.0), diverged=diverged, failed=failed)

    def _decide(self, running: Iterable[str], leaving: str | None = None) -> Step | None:
        step = self._decided_before(leaving)
        if step is not None or self._asked_in_vain or self.policy.finished:
            return step
        step = self.policy.next(tuple(running))
        if step is None:
            self._asked_in_vain = True
            return None
        self.record(self._decided, as_record(step))
        self._decided += 1
        return step

    def _decided_before(self, leaving: str | None) -> Step | None:
        """Return the next recorded step that is still to be taken; None: the record has ended.

        In another order than before, a trial may still be on its way when it is its turn again: then it goes further.
        """
        while (told := self.replay.decisions.get(self._decided)) is not None:
            self._decided += 1
            step = from_record(told)
            if isinstance(step, Begin):
                return step
            if step.trial in self._gone or self.reached.get(step.trial, 0.0) >= step.until:
                continue
            if step.trial in self.until and step.trial != leaving:
                self.until[step.trial] = max(step.until, self.until[step.trial])
                continue
            return step
        return None

    def state(self) -> dict[str, Any]:
        """Return what a resume needs, as plain values."""
        return {
            "policy": self.policy.state(),
            "until": dict(self.until),
            "reached": dict(self.reached),
            "tunings": {trial: list(tuning) for trial, tuning in self.tunings.items()},
            "gone": sorted(self._gone),
            "over": self.over,
            "decided": self._decided,
            "next": None if self._next is None else as_record(self._next),
        }

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.policy.take_up(state["policy"])
        self.until, self.reached, self._gone = dict(state["until"]), dict(state["reached"]), set(state["gone"])
        self.tunings = {trial: (strategy, replicate) for trial, (strategy, replicate) in state["tunings"].items()}
        self.over, self._decided = state["over"] and not self._grown, state["decided"]
        self._next = None if state["next"] is None else from_record(state["next"])


def as_record(step: Step) -> dict[str, Any]:
    """Return a step as plain values."""
    if isinstance(step, GoOn):
        return {"trial": step.trial, "until": step.until}
    values = None if step.values is None else dict(step.values)
    return {"tuning": list(step.tuning), "until": step.until, "values": values}


def from_record(told: Mapping[str, Any]) -> Step:
    """Return the step that :func:`as_record` made plain."""
    if "trial" in told:
        return GoOn(told["trial"], told["until"])
    strategy, replicate = told["tuning"]
    return Begin((strategy, replicate), told["until"], told["values"])


def _nowhere(number: int, step: Mapping[str, Any]) -> None:
    """Keep nothing: nobody listens yet."""
