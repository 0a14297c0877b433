"""A search: a space, a searcher, a scheduler, resources, tracking - put together on Ray Tune."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from trainables.keys import judged
from tune_mtl.core.errors import UserError
from tune_mtl.core.files import write_json
from tune_mtl.core.problem import Problem
from tune_mtl.core.process.signals import postponed, told_how_to_go_on
from tune_mtl.experiment.confirm import confirm_search, control_search
from tune_mtl.experiment.description import asked_params, at_end, at_start
from tune_mtl.experiment.explained import explained
from tune_mtl.experiment.growth import extended, next_round
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.manage import release_unbegun, saved_settings
from tune_mtl.experiment.planning.cost import check_disk
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.references import keep_references
from tune_mtl.experiment.planning.searched import keep_space
from tune_mtl.experiment.planning.thawing import evaluations, make_policy, pauses
from tune_mtl.experiment.problem_facts import problem_facts
from tune_mtl.experiment.running import followers, workload
from tune_mtl.experiment.scheduling import make_loop
from tune_mtl.experiment.search_result import SearchResult
from tune_mtl.experiment.warm_start import learn_from
from tune_mtl.experiment.winner_model import keep_model
from tune_mtl.preflight.doctor import require_healthy
from tune_mtl.problems.registry import load_problem
from tune_mtl.ray_tune.admission import check_address
from tune_mtl.ray_tune.cluster import Cluster, logged_to
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.ray_tune.thawing import ThawLoop
from tune_mtl.ray_tune.trials import Followers, Trials
from tune_mtl.reporting.write import Report, write_report
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.search_options import SearchOptions
from tune_mtl.results.searches import all_searches, best, best_by_strategy, find_search, trials
from tune_mtl.results.settings import Settings
from tune_mtl.tracking import names
from tune_mtl.tracking.store import client, reachable

logger = logging.getLogger(__name__)

LOG = "search.log"


@explained
def search(problem: str | Problem, **options: Unpack[SearchOptions]) -> SearchResult:
    """Search the best strategy, group count and learning rate for ``problem``.

    The options have one home, ``Settings``: its help texts are put below when this is loaded, so that they cannot
    differ from those of the command line. Their names and types are a ``TypedDict``, from which editors complete
    keywords, the values of ``algorithm`` too, and with which type checkers check callers.

    Args:
        problem: A built-in name, ``package.module:attribute``, or a :class:`Problem`.
        **options: Of ``SearchOptions``; ``Settings`` explains them. What is None is as if it were not given.

    Raises:
        UserError: for anything that cannot be, before any trial starts; for a problem that cannot be trained, see
            :func:`tune_mtl.check_problem`.
    """
    check_address(options.get("address"))
    plan = plan_search(problem, **options)
    reachable(plan.tracking_uri, writing=True)
    for reason in plan.left_out.values():
        logger.warning("left out: %s", reason)
    _check_unused(plan)
    plan.check_strategies()
    check_disk(plan)
    with (
        told_how_to_go_on(lambda: _again(plan)),
        alone_in(plan.folder),
        Cluster(plan.settings.address, own_module=plan.ships_modules),
    ):
        require_healthy(plan.needs)
        running = _new_trials(plan)
        keep_references(plan.problem, plan.folder)
        write_json(plan.folder / names.SETTINGS_FILE, plan.settings.public())
        keep_space(plan.settings, plan.folder)
        return _finish(plan, running)


def _new_trials(plan: Plan) -> Trials:
    """Return the trials of a new search, with all that they consist of."""
    settings = plan.settings
    searcher = FairSearcher(
        plan.space,
        plan.objective,
        algorithm=settings.algorithm,
        turns=plan.turns,
        seeds=plan.seeds,
        seed=settings.seed,
        balanced=settings.balance == "strategy",
        constant=plan.constant,
        tasks=len(plan.problem.tasks),
        counts=plan.budget.counts,
        judged=judged(settings.judge or "best", plan.objective.metric),
    )
    if settings.warm_start is not None:
        learn_from(settings.warm_start, plan, searcher)
    loop = make_loop(plan)
    if isinstance(loop, ThawLoop):
        searcher.starter = loop
    return Trials.make(plan.folder, workload(plan), searcher, loop, _followers(plan))


def _followers(plan: Plan) -> Followers:
    """Return who follows the trials of a search."""
    total = None if pauses(plan) else plan.total
    return followers(plan, "trial", plan.settings.name, plan.space.strategies, total, evaluations(plan))


def _restored(plan: Plan) -> Trials:
    """Return the trials of a search where a kill left them, as its plan is now."""
    trials = Trials.restore(plan.folder, workload(plan), _followers(plan))
    policy = make_policy(plan) if pauses(plan) else None
    return trials.go_on_as_planned(plan.turns, plan.seeds, plan.settings.time_budget, policy)


def resume(
    name: str,
    *,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    problem: Problem | None = None,
) -> SearchResult:
    """Go on with an interrupted search: finished trials stay, running ones continue from their checkpoints.

    Whatever was killed, and however often: no trial is lost or doubled, and each ends as if it had never been
    interrupted. With ``concurrency=1`` the whole search does.

    Args:
        name: The name of the search.
        address: The address of another cluster than before.
        storage: Where the search's folder is now, if it was moved.
        tracking_uri: The address of the MLflow store, if it was moved or needs a password, which is never kept.
        problem: The problem itself, where the search was started with one that has no importable name.

    Raises:
        UserError: if there is no such search here, or it is running.
    """
    settings = saved_settings(name, address=address, storage=storage, tracking_uri=tracking_uri)
    return _go_on(settings, problem)


def extend(
    name: str,
    *,
    samples: int,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    problem: Problem | None = None,
) -> SearchResult:
    """Grow a finished search by ``samples`` trials: searcher and rungs go on from where they were.

    A time budget that ended the search is lifted: what it left out is tried too. If the search had its winners
    confirmed, those of the grown one are confirmed again where they differ.

    Args:
        name: The name of the search.
        samples: How many trials more.
        address, storage, tracking_uri, problem: As for :func:`resume`.

    Raises:
        UserError: if there is no such search, it is not complete, or its grid has no more configs.
    """
    if samples < 1:
        raise UserError(f"samples={samples} must be at least 1: it is how many trials more.")
    settings = saved_settings(name, address=address, storage=storage, tracking_uri=tracking_uri)
    _, store, parent = find_search(name, settings.tracking_uri)
    if parent.info.status != "FINISHED":
        raise UserError(f"search '{name}' is not complete: tune-mtl resume {name} first.")
    plan = Plan.make(load_problem(problem or settings.problem, settings.fixed), settings)
    grown = extended(plan, samples)
    for tag in (names.COMMON_LR, names.WINNER):
        if tag in parent.data.tags:
            store.delete_tag(parent.info.run_id, tag)
    return _go_on(grown, problem, changed=True)


def _go_on(settings: Settings, problem: Problem | None, *, changed: bool = False) -> SearchResult:
    check_address(settings.address)
    plan = Plan.make(load_problem(problem or settings.problem, settings.fixed), settings)
    reachable(plan.tracking_uri, writing=True)
    with (
        told_how_to_go_on(lambda: _again(plan)),
        alone_in(plan.folder),
        Cluster(settings.address, own_module=plan.ships_modules),
    ):
        require_healthy(plan.needs)
        if changed:
            write_json(plan.folder / names.SETTINGS_FILE, settings.public())
        exists = Trials.exist(plan.folder)  # else it was killed before its first trial
        return _finish(plan, _restored(plan) if exists else _new_trials(plan))


def _again(plan: Plan) -> str:
    """Return what to type to go on with a search that was stopped."""
    begun = Trials.exist(plan.folder)
    return f"tune-mtl resume {plan.settings.name}" if begun else "the same command: no trial had started"


def _finish(plan: Plan, running: Trials) -> SearchResult:
    """Run the trials; then confirmation and the report, if they are asked for."""
    with logged_to(plan.folder / LOG):
        result = _run_round(plan, running)
        while result.complete and not running.loop.time.is_up and (grown := next_round(plan)) is not None:
            plan = grown
            write_json(plan.folder / names.SETTINGS_FILE, plan.settings.public())
            running = _restored(plan)
            result = _run_round(plan, running)
        if result.confirmed:
            result = replace(result, complete=control_search(plan, plan.settings.confirm))
        if result.complete and result.best is not None:
            keep_model(plan)
        if result.complete and plan.settings.report:
            result = replace(result, report=_report(plan))
    return result


def _run_round(plan: Plan, running: Trials) -> SearchResult:
    """Run the trials, then what confirms their winners, if that is asked for."""
    result, settings = _run(plan, running), plan.settings
    if not (result.complete and settings.confirm and result.best is not None):
        return result
    done = confirm_search(plan, settings.confirm)
    chosen = replace(best(settings.name, tracking_uri=plan.tracking_uri), problem=plan.problem)
    return replace(result, best=chosen, complete=done, confirmed=settings.confirm if done else 0)


def _run(plan: Plan, running: Trials) -> SearchResult:
    settings = plan.settings
    ranked_by = names.BY_MEAN if settings.algorithm == "grid" else names.BY_TRIAL
    parent_tags = {names.OBJECTIVE: str(plan.objective), names.RANKED_BY: ranked_by, names.PROBLEM: settings.problem}
    files = {names.SETTINGS_FILE: settings.public(), names.FACTS_FILE: problem_facts(plan)}
    running.tracker.open(parent_tags, files, asked_params(plan))
    running.tracker.describe(at_start(plan))
    ending = running.run()
    with postponed():
        running.tracker.flush()
        if ending.complete:
            running.tidy()
        found = best_by_strategy(settings.name, tracking_uri=plan.tracking_uri)
        winners = {strategy: replace(trial, problem=plan.problem) for strategy, trial in found.items()}
        overall = _best_of(winners)
        table = trials(settings.name, tracking_uri=plan.tracking_uri)
        running.tracker.close(
            complete=ending.complete,
            tags={} if overall is None else {names.BEST_RUN: overall.run_id},
            table=table,
            best=None if overall is None else overall.config,
        )
        running.tracker.describe(at_end(plan, winners, complete=ending.complete))
    ending.raise_failure()
    return SearchResult(
        name=settings.name,
        best=overall,
        best_by_strategy=winners,
        counts=dict(Counter(table["outcome"])) if len(table) else {},
        complete=ending.complete,
        folder=plan.folder,
        tracking_uri=plan.tracking_uri,
    )


def _report(plan: Plan) -> Report | None:
    """Write the page; whatever goes wrong with it, the search is done."""
    try:
        return write_report(plan.settings.name, tracking_uri=plan.tracking_uri)
    except Exception:
        logger.exception("the report could not be written; try tune-mtl report %s", plan.settings.name)
        return None


def _best_of(winners: Mapping[str, BestTrial]) -> BestTrial | None:
    best: BestTrial | None = None
    for trial in winners.values():
        if best is None or trial.objective.better(trial.value, best.value):
            best = trial
    return best


def _check_unused(plan: Plan) -> None:
    """Refuse a name that is taken; one whose search was killed before its first trial is free again."""
    name = plan.settings.name
    taken = (plan.folder / names.SETTINGS_FILE).exists() or name in all_searches(client(plan.tracking_uri))
    if taken and not release_unbegun(name, plan.folder, plan.tracking_uri):
        raise UserError(
            f"search '{name}' exists already: tune-mtl resume {name} goes on with it, or choose another --name."
        )
