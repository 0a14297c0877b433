"""All searches of a store, a line each."""

from collections import Counter
from dataclasses import dataclass

from tune_mtl.core.errors import UserError
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.searches import all_searches, best
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import client, reachable, tracking_uri


@dataclass(frozen=True)
class SearchSummary:
    """A line of ``tune-mtl list``."""

    name: str
    problem: str
    state: str
    counts: dict[str, int]
    best: BestTrial | None


def summaries(given_uri: str | None = None) -> list[SearchSummary]:
    """Return all searches of the store, the newest first."""
    uri = tracking_uri(given_uri)
    reachable(uri)
    store = client(uri)
    found = []
    for name, parent in all_searches(store).items():
        children = search_runs(store, [parent.info.experiment_id], name, "trial")
        counts = Counter(run.data.tags.get(names.OUTCOME, run.info.status.lower()) for run in children)
        try:
            winner = best(name, tracking_uri=uri)
        except UserError:
            winner = None
        state = {"FINISHED": "complete", "RUNNING": "running or killed"}.get(parent.info.status, "interrupted")
        found.append(SearchSummary(name, parent.data.tags.get(names.PROBLEM, ""), state, dict(counts), winner))
    return found
