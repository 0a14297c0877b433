"""What confirms a search: which configs are trained again, on which seeds, and why."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.keys import REPLICATE, TRIAL
from tune_mtl.experiment.planning.plan import Plan, mini_batches_per_epoch
from tune_mtl.reporting.controls import Controls
from tune_mtl.results.accepted import controlled_tunings
from tune_mtl.results.search_data import SearchData, shared_values
from tune_mtl.tracking import names
from tune_mtl.training.beginning import why_not
from tune_mtl.training.config import Config, resolve


@dataclass(frozen=True)
class Rerun:
    """A config to train in full, and why.

    Attributes:
        role: Why.
        config: The config.
        replicate: The repetition of the tuning that it belongs to.
        continues: The trial id of a shorter run that it begins as, bit for bit; it goes on where that one has ended.
    """

    role: str
    config: Mapping[str, Any]
    replicate: int = 0
    continues: str | None = None

    @property
    def suggestion(self) -> dict[str, Any]:
        """The config as a searcher suggests it, with the keys that say which run it is."""
        return {**self.config, TRIAL: self.trial_id, REPLICATE: self.replicate}

    @property
    def trial_id(self) -> str:
        """The id of the run, which says what it is and is the same whenever it is planned."""
        if self.role == names.FACTORIAL:
            config = self.config
            return names.factorial_id(config["strategy"], config["groups"], config["groups_seed"], config["seed"])
        return names.rerun_id(self.role, self.config["strategy"], self.config["seed"])


def plan_confirmation(plan: Plan, search: SearchData, count: int) -> list[Rerun]:
    """Return what confirms a search: the choice of each tuning on ``count`` fresh seeds of its replicate."""
    return [
        Rerun(names.CONFIRM, {**config, "seed": seed}, replicate)
        for replicate, seeds in _fresh_seeds(plan, search, count).items()
        for config in _choices(search, replicate)
        for seed in seeds
    ]


def plan_controls(plan: Plan, search: SearchData, count: int, wanted: Controls | None = None) -> list[Rerun]:
    """Return the controls of a search that is confirmed on ``count`` seeds; ``wanted``: no others (None: all).

    They tell the method from its steps and from its learning rate, in as many replicates as the search's ``controls``
    say. The one of equal updates is for choices that take fewer than the one that takes most in their replicate, where
    both have the same network, batch size and so on; single-task networks share no updates, and have none. Quality and
    paths are compared at one learning rate besides: there every strategy is trained with all else being the same,
    unless the search was a whole grid and has those runs.
    """
    reruns = []
    seeds = _fresh_seeds(plan, search, count)
    for replicate in sorted(seeds)[: controlled_tunings(plan.settings.controls, len(seeds))]:
        for seed in seeds[replicate][:1] if len(seeds) > 1 else seeds[replicate]:
            reruns += _at_equal_updates(plan, search, replicate, seed)
            reruns += _at_common_rate(search, replicate, seed)
    reruns = [rerun for rerun in reruns if wanted is None or rerun.config["strategy"] in wanted.of_role[rerun.role]]
    return sorted(reruns, key=lambda rerun: (names.EQUAL_UPDATES, names.COMMON_PATH).index(rerun.role))


def _fresh_seeds(plan: Plan, search: SearchData, count: int) -> dict[int, list[int]]:
    """Return by replicate seeds that no trial of the search has seen, nor will one that it may still be grown by."""
    if plan.replicates > 1:
        planned = plan.fresh_seeds(count)
        cut = search.cut_replicates
        return {replicate: planned[replicate] for replicate in search.replicates if replicate not in cut}
    used = [int(run.config["seed"]) for run in search.trials]
    first = max(used, default=-1) + 1
    return {next(iter(search.replicates), 0): [first + index for index in range(count)]}


def _choices(search: SearchData, replicate: int) -> list[Mapping[str, Any]]:
    """Return what each strategy's tuning has chosen in a replicate."""
    return [config for (_, place), config in search.tunings.items() if place == replicate]


def _at_equal_updates(plan: Plan, search: SearchData, replicate: int, seed: int) -> list[Rerun]:
    """Return the choices that take fewer updates than another, with as many as that one."""
    if plan.settings.budget != "epochs":
        return []
    sharing = [config for config in _choices(search, replicate) if search.shares_trunk(config["strategy"])]
    busiest = max(sharing, key=lambda config: _updates(plan, config), default={})
    reruns = []
    for config in sharing:
        if shared_values(config) == shared_values(busiest) and _updates(plan, config) < _updates(plan, busiest):
            most = _updates(plan, busiest)
            passes = math.ceil(most / mini_batches_per_epoch(plan.problem, _resolved(plan, config)))
            longer = {**config, "seed": seed, "max_updates": most, "epochs": passes}
            reruns.append(Rerun(names.EQUAL_UPDATES, longer, replicate, _begun_by(plan, config, longer)))
    return reruns


def _begun_by(plan: Plan, config: Mapping[str, Any], longer: Mapping[str, Any]) -> str | None:
    """Return the confirming run of ``config`` that ``longer`` begins as; None where their numbers would differ."""
    shorter = _resolved(plan, config)
    per_epoch = mini_batches_per_epoch(plan.problem, shorter)
    if why_not(plan.problem, _resolved(plan, longer), shorter.epochs, per_epoch) is not None:
        return None
    return names.rerun_id(names.CONFIRM, longer["strategy"], longer["seed"])


def _at_common_rate(search: SearchData, replicate: int, seed: int) -> list[Rerun]:
    """Return every strategy at the learning rate that does best overall, but for what is confirmed there anyway."""
    if search.grid_has_paths:
        return []
    reruns = []
    for strategy in search.winners:
        config = search.common_config(strategy)
        chosen = search.tunings.get((strategy, replicate), {})
        if config is not None and {**config, "seed": seed} != {**chosen, "seed": seed}:
            reruns.append(Rerun(names.COMMON_PATH, {**config, "seed": seed}, replicate))
    return reruns


def _resolved(plan: Plan, config: Mapping[str, Any]) -> Config:
    return resolve(plan.problem, config, plan.settings.problem)


def _updates(plan: Plan, config: Mapping[str, Any]) -> int:
    """Return the optimizer steps of a whole run."""
    resolved, tasks = _resolved(plan, config), len(plan.problem.tasks)
    per_epoch = mini_batches_per_epoch(plan.problem, resolved)
    return resolved.mini_batches(per_epoch, tasks) * resolved.updates_per_batch(tasks)
