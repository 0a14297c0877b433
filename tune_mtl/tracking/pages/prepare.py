"""What a search shows in MLflow: its prepared pages, and the description of its run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tune_mtl.core.objective import Objective
from tune_mtl.tracking import names
from tune_mtl.tracking.pages import views
from tune_mtl.tracking.pages.descriptions import search_note
from tune_mtl.tracking.ranking import read_winners

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


@dataclass(frozen=True)
class Pages:
    """The pages of a search in MLflow, as addresses relative to the server's.

    Attributes:
        name: Of the search.
        problem: What it is about.
        trials: All trials, sorted by the objective.
        charts: Their curves.
        winners: The best trial of each strategy, side by side; None: none has ended well.
        search: The search's own run: the answer, and how it went.
    """

    name: str
    problem: str
    trials: str
    charts: str
    winners: str | None
    search: str


def prepare_pages(of: "MlflowClient", name: str, parent: "Run") -> Pages:
    """Prepare the pages of a search in the store, and return their addresses."""
    experiment = parent.info.experiment_id
    objective, winners = _objective(parent), _winners(parent)
    condition = f"tags.`{names.SEARCH}` = '{name}' and tags.`{names.KIND}` = 'trial'"
    some = list(map(of.get_run, winners[:10])) or of.search_runs([experiment], condition, max_results=10)
    params = dict.fromkeys(key for run in some for key in run.data.params)
    metrics = {key for run in some for key in run.data.metrics}
    views.keep_view(of, experiment, name, objective, params or ("strategy", "lr", "groups"), metrics)
    return Pages(
        name,
        parent.data.tags.get(names.PROBLEM, ""),
        views.trials_address(experiment, name),
        views.trials_address(experiment, name, charts=True),
        views.compare_address(experiment, winners) if winners else None,
        views.run_address(experiment, parent.info.run_id),
    )


def keep_answer(of: "MlflowClient", run_id: str, answer: Sequence[str], *, report: str | None = None) -> None:
    """Have the run of a search say in words what is known, instead of what it said before.

    Args:
        of: The store.
        run_id: Of the search's run.
        answer: Sentences; the first one stands out.
        report: Where the page lies.
    """
    parent = of.get_run(run_id)
    search = parent.data.tags[names.SEARCH]
    prepare_pages(of, search, parent)
    text = search_note(
        search,
        parent.info.experiment_id,
        run_id,
        _objective(parent),
        answer=answer,
        winners=_winners(parent),
        report=report,
    )
    of.set_tag(run_id, names.NOTE, text)


def _objective(parent: "Run") -> Objective:
    return Objective.parse(parent.data.tags.get(names.OBJECTIVE, "val/loss:min"))


def _winners(parent: "Run") -> list[str]:
    """Return the best run of each strategy, the best strategy first."""
    return [winner.run_id for winner in read_winners(parent.data.tags.get(names.WINNERS, "{}")).values()]
