"""What the tracking store knows of searches: which there are, their trials, and who is best."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.imports import is_reference
from tune_mtl.core.objective import Objective
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.tracking import names
from tune_mtl.tracking.ranking import Winner, new_ranking, read_winners
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import client, no_store, reachable, tracking_uri

if TYPE_CHECKING:
    import pandas as pd

    from tune_mtl.core.problem import Problem
    from tune_mtl.exporting.deliver import Exported
    from tune_mtl.tracking.store import Run, StoreClient


_IDENTITY = ("strategy", "strategy_from", "optimizer_from", "schedule_from", "seed")
"""What says who a trial is, rather than what was searched."""


def searched_keys(configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values differ between configs, strategy and seed aside; ``lr`` and ``groups`` always."""
    found: dict[str, set[str]] = {"lr": set(), "groups": set()}
    for config in configs:
        for key, value in config.items():
            if key not in _IDENTITY:
                found.setdefault(key, set()).add(json.dumps(value))
    return [key for key, values in found.items() if key in ("lr", "groups") or len(values) > 1]


def best(
    name: str, *, strategy: str | None = None, tracking_uri: str | None = None, recompute: bool = False
) -> BestTrial:
    """Return the best trial of search ``name``, or of one of its strategies.

    Where the search was confirmed, it is the best trial of the strategy that is best on fresh seeds; else the best of
    all.

    Diverged, failed and unfinished trials cannot win. Values are those of the best epoch, not of the last. On a grid a
    config that ran on several seeds is ranked by its mean; one that ran on fewer than others of its strategy is not
    ranked.
    The search itself keeps who is best; ``recompute`` looks at all of its trials instead.

    Raises:
        UserError: if there is no such search or strategy, or no trial of it has ended well.
    """
    uri, store, parent = find_search(name, tracking_uri)
    ranking = _winners(store, parent, name, recompute=recompute)
    if strategy is not None and is_reference(strategy):
        strategy = _name_of(strategy, store, ranking)
    if strategy is not None and strategy not in ranking:
        raise UserError(f"search '{name}' has no finished trial of '{strategy}'. {did_you_mean(strategy, ranking)}")
    if not ranking:
        raise UserError(f"search '{name}' has no trial that ended well yet.")
    kept = parent.data.tags.get(names.WINNER)
    leader = kept if kept in ranking else next(iter(ranking))
    return _trial(store, parent, ranking[strategy or leader], uri)


def best_by_strategy(name: str, *, tracking_uri: str | None = None, recompute: bool = False) -> dict[str, BestTrial]:
    """Return the best trial of each strategy that has one, the best strategy first."""
    uri, store, parent = find_search(name, tracking_uri)
    ranking = _winners(store, parent, name, recompute=recompute)
    return {strategy: _trial(store, parent, winner, uri) for strategy, winner in ranking.items()}


def _winners(store: "StoreClient", parent: "Run", name: str, *, recompute: bool) -> dict[str, Winner]:
    """Return the winners as the search's own run has them; where it has none, find them among all trials."""
    if names.WINNERS in parent.data.tags and not recompute:
        return read_winners(parent.data.tags[names.WINNERS])
    ranking = new_ranking(parent.data.tags)
    for run in search_runs(store, [parent.info.experiment_id], name, "trial"):
        ranking.add_run(run.info.run_id, run.data.tags, run.data.metrics)
    return ranking.winners()


def _name_of(reference: str, store: "StoreClient", ranking: Mapping[str, Winner]) -> str:
    """Return the name under which a search has a strategy that was brought; what it does not have stays as it is."""
    for name, winner in ranking.items():
        config = json.loads(store.get_run(winner.run_id).data.tags[names.CONFIG])
        if config.get("strategy_from") == reference:
            return name
    return reference


def _trial(store: "StoreClient", parent: "Run", winner: Winner, uri: str) -> BestTrial:
    run = store.get_run(winner.run_id)
    return BestTrial(
        config=json.loads(run.data.tags[names.CONFIG]),
        metrics=dict(run.data.metrics),
        run_id=winner.run_id,
        trial_id=run.data.tags[names.TRIAL_ID],
        outcome=run.data.tags[names.OUTCOME],
        value=winner.value,
        seeds=winner.seeds,
        objective=Objective.parse(parent.data.tags[names.OBJECTIVE]),
        tracking_uri=uri,
        searched=tuple(key for key in run.data.params if key not in _IDENTITY),
        search=parent.data.tags[names.SEARCH],
    )


def export(
    name: str,
    *,
    to: str,
    strategy: str | None = None,
    out: str | os.PathLike[str] | None = None,
    register: str | None = None,
    problem: "Problem | None" = None,
    tracking_uri: str | None = None,
) -> "Exported":
    """Export the best network of search ``name`` for programs that do not have this package.

    It takes what the problem's network takes, after ``Problem.to_device``, and predicts a dict by task: what
    ``best(name).load_model()`` does, in float32 on the CPU. It is loaded back and compared before it counts.

    Args:
        name: The name of the search.
        to: ``mlflow``: a model of the winner's run, with signature and input example, for
            ``mlflow.pytorch.load_model("runs:/RUN_ID/model")``; ``torch``: a file for ``torch.export.load``; ``onnx``:
            a file for ONNX runtimes.
        strategy: The best of this strategy alone.
        out: The file; default: ``exports/`` in the home. With ``mlflow``: a folder that gets the model too.
        register: The name of a registered model that gets it as a new version (``mlflow``).
        problem: The problem itself, where it has no name to import it by.
        tracking_uri: The MLflow store.

    Raises:
        UserError: for what cannot be, and if predictions differ; then nothing is left behind.
    """
    found = best(name, strategy=strategy, tracking_uri=tracking_uri)
    return found.export(to=to, out=out, register=register, problem=problem)


def find_search(name: str, given_uri: str | None) -> "tuple[str, StoreClient, Run]":
    """Return the store's address, a client, and the parent run of search ``name``.

    Raises:
        UserError: if the store does not answer or has no such search; the nearest name is suggested.
    """
    uri = tracking_uri(given_uri)
    reachable(uri)
    store = client(uri)
    found = search_runs(store, _experiments(store), name, "search")
    if not found:
        near = did_you_mean(name, all_searches(store))
        raise UserError(f"there is no search '{name}' in {without_secrets(uri)}. {near}")
    return uri, store, found[0]


def all_searches(store: "StoreClient") -> "dict[str, Run]":
    """Return every search of the store, by name, the newest first."""
    runs = search_runs(store, _experiments(store), None, "search")
    return {run.data.tags[names.SEARCH]: run for run in sorted(runs, key=lambda run: -run.info.start_time)}


def _experiments(store: "StoreClient") -> list[str]:
    """Return the ids of our experiments; the first thing that is asked of a store.

    Raises:
        UserError: if what answers is no store of this MLflow.
    """
    try:
        return [e.experiment_id for e in store.search_experiments(filter_string=f"name LIKE '{names.PREFIX}%'")]
    except Exception as error:  # each store has its own way not to answer
        raise no_store(store.tracking_uri, error) from error


def trials(name: str, *, tracking_uri: str | None = None, kind: str = "trial") -> "pd.DataFrame":
    """Return one row per trial: ``trial_id``, ``replicate``, ``outcome``, ``run_id``, config, last values of metrics.

    ``kind="confirm"`` gives the runs that confirmed the winners instead, ``kind="factorial"`` those that crossed draws
    of groups with seeds.
    """
    import pandas as pd

    _, store, parent = find_search(name, tracking_uri)
    rows = [
        {
            "trial_id": run.data.tags[names.TRIAL_ID],
            "replicate": int(run.data.tags.get(names.REPLICATE, 0)),
            "outcome": run.data.tags.get(names.OUTCOME, run.info.status.lower()),
            "run_id": run.info.run_id,
            **json.loads(run.data.tags[names.CONFIG]),
            **run.data.metrics,
        }
        for run in search_runs(store, [parent.info.experiment_id], name, kind)
    ]
    frame = pd.DataFrame(rows)
    return frame.sort_values("trial_id", ignore_index=True) if rows else frame
