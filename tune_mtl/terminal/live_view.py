"""The search on the screen: one calm live view on a terminal, plain lines elsewhere."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainables.base import TRIAL
from tune_mtl.core.objective import Objective
from tune_mtl.ray_tune.tracking_callback import outcome_of
from tune_mtl.terminal.console import console, number


class Screen(Callback):
    """Trials by state, the best so far of each strategy, budget used and time left.

    Attributes:
        total: How many trials there are to be.
    """

    def __init__(
        self,
        name: str,
        objective: Objective,
        strategies: tuple[str, ...],
        total: int,
        searched: Sequence[str] = ("lr", "groups"),
    ) -> None:
        self._name, self._objective, self._strategies, self.total = name, objective, strategies, total
        self._searched = tuple(searched)
        self._outcomes: Counter[str] = Counter()
        self._running: set[str] = set()
        self._best: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._epochs = 0

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_console", "_live", "_started")}

    def get_state(self) -> dict[str, Any]:
        """What was counted so far."""
        return {"outcomes": dict(self._outcomes), "best": dict(self._best), "epochs": self._epochs}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self._outcomes, self._best = Counter(state["outcomes"]), dict(state["best"])
        self._epochs = state["epochs"]

    def open(self) -> None:
        """Begin to show."""
        self._console = console()
        self._started = (time.monotonic(), self.done)
        self._live = Live(get_renderable=self._view, console=self._console, refresh_per_second=2, transient=True)
        if self._console.is_terminal:
            self._live.start()

    def close(self) -> None:
        """Leave the screen to what comes next."""
        if self._live.is_started:
            self._live.stop()

    @property
    def done(self) -> int:
        """How many trials have ended by themselves, or were stopped early."""
        return sum(self._outcomes.values())

    @property
    def running(self) -> int:
        """How many trials were started and have not ended."""
        return len(self._running)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """One more is running."""
        self._running.add(trial.trial_id)

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Trial],  # noqa: ARG002
        trial: Trial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        """Perhaps a new best."""
        self._epochs += 1
        value = result.get("best")
        strategy = trial.config["strategy"]
        if value is not None:
            held = self._best.get(strategy)
            if self._objective.better(value, held[0] if held else None):
                self._best[strategy] = (value, dict(trial.config))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """One has ended."""
        self._end(trial, outcome_of(trial.last_result))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """One has failed."""
        self._end(trial, "failed")

    def _end(self, trial: Trial, outcome: str) -> None:
        self._running.discard(trial.trial_id)
        self._outcomes[outcome] += 1
        if not self._console.is_terminal:
            value = trial.last_result.get("best")
            config = " ".join(f"{key}={_short(trial.config[key])}" for key in self._searched if key in trial.config)
            self._console.print(
                f"{self.done}/{self.total}  trial {trial.config[TRIAL]}  {trial.config['strategy']} {config}"
                f"  {outcome} at epoch {trial.last_result.get('epoch', 0):.0f}"
                f"  {self._objective.metric} {number(value)}{self._left()}"
            )

    def _left(self) -> str:
        since, before = self._started
        done = self.done - before
        if not done or self.done >= self.total:
            return ""
        return f"  {(time.monotonic() - since) / done * (self.total - self.done):.0f} s left"

    def _view(self) -> Group:
        """Made when it is drawn, by the thread that draws: events come by the hundred."""
        states = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self._outcomes.items()))
        head = Text(
            f"{self._name}: {self.done} of {self.total} trials"
            f" ({len(self._running)} running{', ' + states if states else ''}), {self._epochs} epochs{self._left()}"
        )
        table = Table("strategy", f"best {self._objective.metric}", *self._searched, box=None)
        for strategy in self._strategies:
            value, config = self._best.get(strategy, (None, {}))
            table.add_row(strategy, number(value), *(_short(config.get(key)) for key in self._searched))
        return Group(head, table)


def _short(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
