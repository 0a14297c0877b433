"""The search on the screen: one calm live view on a terminal, plain lines elsewhere. It draws what it is handed."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tune_mtl.terminal.console import console, number
from tune_mtl.tracking.progress import EndedTrial, Progress


class LiveView:
    """Shows trials by state, the best so far of each strategy, the budget used and the time left.

    Args:
        title: Of the view: the search's name.
        progress: What is drawn.
        strategies: In the order of the rows.
        searched: The config keys that are shown.
    """

    def __init__(
        self, title: str, progress: Progress, strategies: Sequence[str], searched: Sequence[str] = ("lr", "groups")
    ) -> None:
        self._title, self._progress = title, progress
        self._strategies, self._searched = tuple(strategies), tuple(searched)

    def open(self) -> None:
        """Begin to show."""
        self._console = console()
        self._started = (time.monotonic(), self._progress.ended)
        self._live = Live(get_renderable=self._view, console=self._console, refresh_per_second=2, transient=True)
        if self._console.is_terminal:
            self._live.start()

    def close(self) -> None:
        """Leave the screen to what comes next."""
        if self._live.is_started:
            self._live.stop()

    def ended(self, trial: EndedTrial) -> None:
        """Print a line about a trial that has ended, where no live view shows it."""
        if self._console.is_terminal:
            return
        config = " ".join(f"{key}={_short(trial.config[key])}" for key in self._searched if key in trial.config)
        self._console.print(
            f"{self._progress.ended}/{self._progress.total}  trial {trial.trial}  {trial.config['strategy']} {config}"
            f"  {trial.outcome} at epoch {trial.epoch}"
            f"  {self._progress.objective.metric} {number(trial.best)}{self._left()}"
        )

    def _left(self) -> str:
        """Return the time left, by the pace so far."""
        since, before = self._started
        ended, total = self._progress.ended - before, self._progress.total
        if not ended or self._progress.complete:
            return ""
        return f"  {(time.monotonic() - since) / ended * (total - self._progress.ended):.0f} s left"

    def _view(self) -> Group:
        """Return the view; made when it is drawn, by the thread that draws: events come by the hundred."""
        progress = self._progress
        states = ", ".join(f"{count} {outcome}" for outcome, count in sorted(progress.outcomes.items()))
        head = Text(
            f"{self._title}: {progress.ended} of {progress.total} trials"
            f" ({len(progress.running)} running{', ' + states if states else ''}),"
            f" {progress.epochs} epochs{self._left()}"
        )
        table = Table("strategy", f"best {progress.objective.metric}", *self._searched, box=None)
        for strategy in self._strategies:
            value, config = progress.best.get(strategy, (None, {}))
            table.add_row(strategy, number(value), *(_short(config.get(key)) for key in self._searched))
        return Group(head, table)


def _short(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
