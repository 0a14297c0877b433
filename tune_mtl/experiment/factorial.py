"""Whose luck is it? Draws of groups crossed with seeds, for the best config of each strategy with groups."""

from collections.abc import Sequence
from typing import Any

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.problem import Problem
from tune_mtl.core.process.signals import told_how_to_go_on
from tune_mtl.experiment.formats import RECORDED
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.manage import saved_settings
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.rerunning import Again, train_again
from tune_mtl.experiment.reruns import Rerun
from tune_mtl.preflight.doctor import require_healthy
from tune_mtl.problems.registry import load_problem
from tune_mtl.ray_tune.admission import check_address
from tune_mtl.ray_tune.cluster import Cluster, logged_to
from tune_mtl.reporting.write import Report, write_report
from tune_mtl.results.factorial import best_with
from tune_mtl.results.search_data import SearchData
from tune_mtl.strategies.group_draws import count_groupings
from tune_mtl.strategies.grouping import distinct_draws
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.tracking import names
from tune_mtl.tracking.store import reachable

LOG = "factorial.log"
DEFAULT_DRAWS, DEFAULT_SEEDS = 4, 4
FIRST_SEED = 2_000_000
"""Far above the seeds on which choices are confirmed; always the same, so that a factorial can grow."""


def factorial(
    name: str,
    *,
    draws: int = DEFAULT_DRAWS,
    seeds: int = DEFAULT_SEEDS,
    strategies: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    problem: Problem | None = None,
) -> Report | None:
    """Train the best configs with groups of search ``name`` on every pair of a draw of groups and a seed.

    The report then says how much of the variance between runs is the draw of the groups, and how much the seed
    (initialisation and order of batches). The runs are whole ones on draws and seeds that the search never saw, of a
    kind of their own: they never count in a ranking. What is there already is not run again, so that a factorial can
    grow; interrupted, the same call goes on.

    Args:
        name: The name of a finished search.
        draws: How many different groupings; as many as there are, if they are fewer.
        seeds: How many seeds, each with every draw.
        strategies: Of these; default: all that have groups and a winner.
        groups: With so many groups, each count by itself; default: that of the strategy's best config.
        address, storage, tracking_uri, problem: As for :func:`tune_mtl.resume`.

    Returns:
        The report, written anew; None if it was interrupted.

    Raises:
        UserError: if there is no such search, or nothing in it whose groups can be drawn in several ways.
    """
    for key, value in (("draws", draws), ("seeds", seeds)):
        if value < 2:
            raise UserError(f"{key}={value} must be at least 2: with one there is no variance to be seen.")
    settings = saved_settings(name, address=address, storage=storage, tracking_uri=tracking_uri, formats=RECORDED)
    check_address(settings.address)
    plan = Plan.make(load_problem(problem or settings.problem, settings.fixed), settings)
    reachable(plan.tracking_uri, writing=True)
    search = SearchData.read(name, plan.tracking_uri)
    if search.state != "complete":
        raise UserError(f"search '{name}' is not complete: tune-mtl resume {name} first.")
    reruns = plan_factorial(plan, search, draws, seeds, strategies, groups)
    cluster = Cluster(settings.address, own_module=plan.ships_modules)
    with told_how_to_go_on(lambda: way_on(name, draws, seeds, strategies, groups)):
        with alone_in(plan.folder), cluster, logged_to(plan.folder / LOG):
            require_healthy(plan.needs)
            whose = list(dict.fromkeys(rerun.config["strategy"] for rerun in reruns))
            title = f"{name}, draws of groups x seeds"
            if not train_again(plan, Again(names.FACTORIAL, title, whose, reruns, search.crossed)):
                return None
        return write_report(name, tracking_uri=plan.tracking_uri)


def way_on(
    name: str, draws: int, seeds: int, strategies: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> str:
    """Return the command that asks for the same factorial."""
    asked: dict[str, Any] = {
        "draws": None if draws == DEFAULT_DRAWS else draws,
        "seeds": None if seeds == DEFAULT_SEEDS else seeds,
        "strategies": ",".join(strategies or ()) or None,
        "groups": ",".join(map(str, groups or ())) or None,
    }
    return " ".join(["tune-mtl factorial", name, *(f"--{key} {value}" for key, value in asked.items() if value)])


def plan_factorial(
    plan: Plan,
    search: SearchData,
    draws: int,
    seeds: int,
    strategies: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
) -> list[Rerun]:
    """Return the runs of a factorial, strategy by strategy.

    Raises:
        UserError: for a strategy without groups or winner, an impossible count, or where nothing is left to be drawn.
    """
    tasks, first = [task.name for task in plan.problem.tasks], plan.settings.seed + FIRST_SEED
    reruns, single = [], []
    for strategy in _with_groups(search, strategies):
        for count in groups or [search.winners[strategy].config["groups"]]:
            if not isinstance(count, int):
                single.append(f"the groups of {strategy} were given, not drawn")
                continue
            if not 1 <= count <= len(tasks):
                raise UserError(f"groups={count} is impossible with {len(tasks)} tasks: choose 1 to {len(tasks)}.")
            if count_groupings(len(tasks), count) < 2:
                single.append(f"{len(tasks)} tasks in {count} group{'s' * (count > 1)} ({strategy}) are one grouping")
                continue
            config = best_with(search, strategy, count) or {}
            if config.get("groups_by", "random") not in (None, "random"):
                single.append(f"the groups of {strategy} were formed by {config['groups_by']}, not drawn")
                continue
            reruns += [
                Rerun(names.FACTORIAL, {**config, "groups_seed": draw, "seed": first + seed})
                for draw in distinct_draws(tasks, count, first, draws)
                for seed in range(seeds)
            ]
    if not reruns:
        drawn = any("one grouping" in reason for reason in single)
        more = " Ask for another count: --groups 2." if drawn and len(tasks) > 2 else ""
        raise UserError(f"there is nothing to draw: {'; '.join(dict.fromkeys(single))}.{more}")
    return reruns


def _with_groups(search: SearchData, asked: Sequence[str] | None) -> list[str]:
    """Return the strategies whose groups are drawn, of those that were asked for."""
    known = [strategy for strategy in search.winners if strategy_info(strategy).has_groups]
    if not known:
        raise UserError(
            f"search '{search.name}' has no winner of a strategy with groups (it has"
            f" {', '.join(search.winners) or 'none at all'}): there is no draw of groups in it."
        )
    for strategy in asked or ():
        if strategy not in known:
            raise UserError(
                f"strategy '{strategy}' has no groups, or no trial in search '{search.name}' that ended well."
                f" {did_you_mean(strategy, known)}"
            )
    return list(dict.fromkeys(asked or known))
