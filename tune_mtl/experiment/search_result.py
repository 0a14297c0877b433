"""What a search gives back to the program that asked for it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_mtl.reporting.notebook import search_cell
from tune_mtl.reporting.verdict import verdict
from tune_mtl.reporting.write import Report
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.searches import trials

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """How a search ended.

    Attributes:
        name: The name of the search.
        best: The best trial of the best strategy, or None if none ended well.
        best_by_strategy: The same for each strategy that has one.
        counts: Trials by outcome.
        complete: Whether all trials that were asked for have ended, confirmation included; else
            ``tune_mtl.resume(name)`` goes on.
        folder: Checkpoints and log.
        confirmed: On how many fresh seeds the choice of every tuning was trained again.
        report: The page and its answer, unless it was not asked for.
    """

    name: str
    best: BestTrial | None
    best_by_strategy: dict[str, BestTrial]
    counts: dict[str, int]
    complete: bool
    folder: Path
    tracking_uri: str = field(repr=False)
    confirmed: int = 0
    report: Report | None = None

    def trials(self) -> "pd.DataFrame":
        """Return one row per trial."""
        return trials(self.name, tracking_uri=self.tracking_uri)

    @property
    def verdict(self) -> dict[str, Any]:
        """What the search tells about its strategies, for programs; see :func:`tune_mtl.verdict`."""
        return verdict(self.name, tracking_uri=self.tracking_uri)

    def _repr_html_(self) -> str:
        return search_cell(self.name, self.best_by_strategy, self.counts, self.report, complete=self.complete)
