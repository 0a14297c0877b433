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

_LINES = 20
"""About a search that prints lines, where trials pause."""


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
        self._started, self._told = (time.monotonic(), self._progress.share), 0
        self._live = Live(get_renderable=self._view, console=self._console, refresh_per_second=2, transient=True)
        if self._console.is_terminal:
            self._live.start()

    def close(self) -> None:
        """Leave the screen to what comes next."""
        if self._live.is_started:
            self._live.stop()

    def paused(self) -> None:
        """Print a line whenever another twentieth of the search is done, where no live view shows it."""
        done = int(self._progress.share * _LINES)
        if self._console.is_terminal or done <= self._told:
            return
        self._told = done
        best = ", ".join(f"{strategy} {number(value)}" for strategy, (value, _) in sorted(self._progress.best.items()))
        self._console.print(f"{done / _LINES:.0%} of the budget: {self._counts()}; best {best}{self._left()}")

    def ended(self, trial: EndedTrial) -> None:
        """Print a line about a trial that has ended, where no live view shows it."""
        if self._console.is_terminal:
            return
        of = "" if self._progress.total is None else f"/{self._progress.total}"
        config = " ".join(f"{key}={_short(trial.config[key])}" for key in self._searched if key in trial.config)
        self._console.print(
            f"{self._progress.ended}{of}  trial {trial.trial}  {trial.config['strategy']} {config}"
            f"  {trial.outcome} at epoch {trial.epoch}"
            f"  {self._progress.objective.metric} {number(trial.best)}{f'  {trial.cause}' if trial.cause else ''}"
            f"{self._left()}"
        )

    def _left(self) -> str:
        """Return the time left, by the pace so far."""
        since, before = self._started
        share = self._progress.share
        if share <= before or share >= 1:
            return ""
        return f"  {(time.monotonic() - since) / (share - before) * (1 - share):.0f} s left"

    def _view(self) -> Group:
        """Return the view; made when it is drawn, by the thread that draws: events come by the hundred."""
        progress = self._progress
        head = Text(f"{self._title}: {self._counts()}{self._left()}")
        table = Table("strategy", f"best {progress.objective.metric}", *self._searched, box=None)
        for strategy in self._strategies:
            value, config = progress.best.get(strategy, (None, {}))
            table.add_row(strategy, number(value), *(_short(config.get(key)) for key in self._searched))
        return Group(head, table)

    def _counts(self) -> str:
        """Return the trials by state, and the epochs."""
        progress = self._progress
        states = ", ".join(f"{count} {outcome}" for outcome, count in sorted(progress.outcomes.items()))
        paused = f", {len(progress.paused)} paused" if progress.paused else ""
        ended = "trials ended" if progress.total is None else f"of {progress.total} trials"
        return (
            f"{progress.ended} {ended} ({len(progress.running)} running{paused}"
            f"{', ' + states if states else ''}), {progress.epochs} epochs"
        )


def _short(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
