"""What a search left in MLflow, read once: everything that a report says comes from here."""

import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import Outcome, is_ranked
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.searches import best_by_strategy, find_search, searched_keys
from tune_mtl.results.settings import FIRST_TRIALS
from tune_mtl.strategies.registry import entries
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import search_runs

if TYPE_CHECKING:
    from tune_mtl.tracking.store import Run, StoreClient

_STORED_INFINITY = 1e300
"""MLflow keeps infinities as the largest number there is: such a value, like NaN, is no result."""


@dataclass(frozen=True)
class Trained:
    """One run: a trial of the search, or one that confirms it."""

    run_id: str
    trial_id: str
    role: str
    outcome: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    replicate: int = 0

    @classmethod
    def of(cls, run: "Run") -> "Trained":
        """Read a run of MLflow; one that has not ended is ``running``, or ``interrupted``."""
        state = Outcome.RUNNING if run.info.status == "RUNNING" else Outcome.INTERRUPTED
        tags = run.data.tags
        return cls(
            run.info.run_id,
            tags[names.TRIAL_ID],
            tags.get(names.ROLE, ""),
            tags.get(names.OUTCOME, state),
            json.loads(tags[names.CONFIG]),
            {name: value for name, value in run.data.metrics.items() if abs(value) < _STORED_INFINITY},
            int(tags.get(names.REPLICATE, 0)),
        )

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return str(self.config["strategy"])

    @property
    def groups(self) -> int | None:
        """The number of task groups; None for a strategy without groups."""
        return _group_count(self.config)

    @property
    def lr(self) -> float:
        """The learning rate."""
        return float(self.config["lr"])

    @property
    def variant(self) -> str:
        """The strategy and its groups: ``io (4 groups)``."""
        return variant(self.strategy, self.groups, self.config.get("groups_by"))

    @property
    def ranked(self) -> bool:
        """Return whether it ended in a way that counts."""
        return is_ranked(self.outcome)

    @property
    def ended(self) -> bool:
        """Return whether it has ended, in whatever way."""
        return self.outcome not in (Outcome.RUNNING, Outcome.INTERRUPTED)

    @property
    def shared(self) -> dict[str, Any]:
        """What of its config has nothing to do with the strategy: network, batch size, weight decay, ..."""
        return shared_values(self.config)


def variant(strategy: str, groups: int | None, by: str | None = None) -> str:
    """Return strategy and groups as ``io (4 groups)`` or ``io (4 groups by affinity)``; without groups its name."""
    how = "" if by in (None, "random") else f" by {by}"
    return strategy if groups is None else f"{strategy} ({groups} group{'s' if groups > 1 else ''}{how})"


@dataclass(frozen=True, kw_only=True)
class SearchData:
    """A search, as MLflow has it.

    Attributes:
        name: The name of the search.
        problem: The problem, as configs name it.
        objective: What decided.
        settings: What was asked for.
        facts: What the search knew of the problem; see `problem_facts` in `tune_mtl.experiment`.
        trials: The trials of the search, in their order.
        reruns: The runs that confirm the winners.
        winners: The best trial of each strategy, the best first.
        state: ``complete``, ``running`` or ``interrupted``.
        tags: The tags of the search's run.
        run_id: The id of the search's run.
        crossed: The runs that cross draws of groups with seeds.
    """

    name: str
    problem: str
    objective: Objective
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]
    trials: Sequence[Trained]
    reruns: Sequence[Trained]
    winners: Mapping[str, BestTrial]
    state: str
    tags: Mapping[str, str]
    run_id: str
    client: "StoreClient" = field(repr=False)
    crossed: Sequence[Trained] = ()
    _histories: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, name: str, tracking_uri: str | None = None) -> "SearchData":
        """Read all that there is about search ``name``.

        Raises:
            UserError: if there is no such search.
        """
        uri, store, parent = find_search(name, tracking_uri)
        objective = Objective.parse(parent.data.tags[names.OBJECTIVE])
        runs = search_runs(store, [parent.info.experiment_id], name, "trial")
        reruns = search_runs(store, [parent.info.experiment_id], name, "confirm")
        crossed = search_runs(store, [parent.info.experiment_id], name, names.FACTORIAL)
        return cls(
            name=name,
            problem=parent.data.tags.get(names.PROBLEM, ""),
            objective=objective,
            settings=_artifact(store, parent.info.run_id, names.SETTINGS_FILE),
            facts=_artifact(store, parent.info.run_id, names.FACTS_FILE),
            trials=sorted(map(Trained.of, runs), key=lambda run: run.trial_id),
            reruns=sorted(map(Trained.of, reruns), key=lambda run: run.trial_id),
            winners=best_by_strategy(name, tracking_uri=uri),
            state={"FINISHED": "complete", "RUNNING": "running"}.get(parent.info.status, "interrupted"),
            tags=dict(parent.data.tags),
            run_id=parent.info.run_id,
            client=store,
            crossed=sorted(map(Trained.of, crossed), key=lambda run: run.trial_id),
        )

    @property
    def quality(self) -> str:
        """The objective's name without its split: ``relative_loss``."""
        return self.objective.metric.removeprefix("val/")

    @property
    def sign(self) -> int:
        """The factor that makes less better: 1, or -1 where more is better."""
        return 1 if self.objective.mode == "min" else -1

    @cached_property
    def strategies(self) -> list[str]:
        """The strategies that were searched: the winners in their order, then the others."""
        tried = [*(self.settings.get("strategies") or ()), *(run.strategy for run in self.trials)]
        return list(dict.fromkeys([*self.winners, *tried]))

    @cached_property
    def searched(self) -> list[str]:
        """The config keys that differ between trials, seeds aside: learning rate and groups first."""
        return searched_keys(run.config for run in self.trials)

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks."""
        return list(self.facts.get("tasks", ()))

    def shares_trunk(self, strategy: str) -> bool:
        """Return whether a strategy has a shared trunk, and so a path; one that nobody knows has."""
        if strategy in entries:
            return entries[strategy].shares_trunk
        return bool(self.facts.get("contestants", {}).get(strategy, {}).get("shares_trunk", True))

    def mode(self, metric: str) -> str | None:
        """Return which way ``metric`` (without its split) is better."""
        if metric == self.quality:
            return self.objective.mode
        known: Mapping[str, str | None] = self.facts.get("metrics", {})
        if metric in known:
            return known[metric]
        whole, _, last = metric.rpartition("/")  # a metric of several values reports them numbered
        if last.isdigit() and whole in known:
            return known[whole]
        return "min" if metric.partition("/")[0] in ("loss", "relative_loss") else None

    @cached_property
    def replicates(self) -> list[int]:
        """The repetitions of the tuning, as far as they have begun."""
        return sorted({run.replicate for run in self.trials})

    @property
    def replicated(self) -> bool:
        """Return whether the strategies were tuned more than once."""
        return len(self.replicates) > 1

    @cached_property
    def tunings(self) -> dict[tuple[str, int], Mapping[str, Any]]:
        """The config that each tuning chose, by strategy and replicate; those that found none are not there.

        Where strategies were tuned once, on one seed or as the mean over several, it is the best of the search.
        """
        if not self.replicated:
            first = next(iter(self.replicates), 0)
            return {(strategy, first): best.config for strategy, best in self.winners.items()}
        metric = names.best_metric(self.objective.metric)
        held: dict[tuple[str, int], Trained] = {}
        for run in self.trials:
            key = run.strategy, run.replicate
            if run.ranked and metric in run.metrics:
                best = held[key].metrics[metric] if key in held else None
                if self.objective.better(run.metrics[metric], best):
                    held[key] = run
        return {key: run.config for key, run in held.items()}

    @cached_property
    def cut_replicates(self) -> list[int]:
        """The replicates in which some strategy has had fewer trials than it was to have: the time was up."""
        if not self.replicated:
            return []
        spent = Counter((run.strategy, run.replicate) for run in self.trials if run.ended)
        begun = {(run.strategy, run.replicate) for run in self.trials}

        def planned(strategy: str) -> int:
            most = max(spent[strategy, one] for one in self.replicates)
            trials = int(self.facts.get("trials_per_tuning") or most)
            return min(trials, FIRST_TRIALS) if self.settings.get("scheduler") == "thaw" else trials

        return [
            replicate
            for replicate in self.replicates
            if any(spent[key] < planned(key[0]) for key in begun if key[1] == replicate)
            or len({strategy for strategy, place in begun if place == replicate}) < 2 <= len(self.strategies)
        ]

    def common_config(self, strategy: str) -> dict[str, Any] | None:
        """Return the config of ``strategy`` at which paths are compared, all that strategies can share being the same.

        Its own options and groups are those of its best trial; learning rate and the rest are those of the best trial
        of all. None where there is nothing to compare.
        """
        sharing = [name for name in self.winners if self.shares_trunk(name)]
        if strategy not in sharing or self.common_lr is None:
            return None
        own, reference = self.winners[strategy].config, self.winners[sharing[0]].config
        kept = {key: value for key, value in own.items() if key not in shared_values(own)}
        return {**shared_values(reference), **kept, "lr": self.common_lr}

    def confirmed(self, role: str, strategy: str | None = None) -> list[Trained]:
        """Return the runs of a role that ended well, with the config that won, in the order of their seeds."""
        return [run for run in self.rerun(role, strategy) if run.outcome == Outcome.COMPLETED]

    def rerun(self, role: str, strategy: str | None = None) -> list[Trained]:
        """Return the runs of a role with the config that won, however they ended, in the order of their seeds."""
        found = [run for run in self.reruns if run.role == role and strategy in (None, run.strategy)]
        return sorted((run for run in found if self._of_winner(run)), key=lambda run: int(run.config["seed"]))

    @property
    def outdated(self) -> list[Trained]:
        """The confirming runs of configs that do not win any more."""
        return [run for run in self.reruns if not self._of_winner(run)]

    def _of_winner(self, run: Trained) -> bool:
        if run.role == names.COMMON_PATH:
            return run.strategy in self.winners and run.lr == self.common_lr
        free = {"seed", *_FREE_BY_ROLE.get(run.role, ())}
        chosen = self.tunings.get((run.strategy, run.replicate))
        if chosen is None:
            return False
        mine, its = ({k: v for k, v in config.items() if k not in free} for config in (run.config, chosen))
        return mine == its

    def diagnosis(self, run_id: str) -> dict[str, Any]:
        """Return what a trial saw of its tasks' gradients, ``tasks`` and ``cosines`` by epoch; empty if it did not."""
        return _artifact(self.client, run_id, names.DIAGNOSIS_FILE)

    def history(self, run: Trained, metric: str) -> dict[int, float]:
        """Return a metric's value at each evaluated epoch."""
        key = (run.run_id, metric)
        if key not in self._histories:
            logged = self.client.get_metric_history(run.run_id, metric) if metric in run.metrics else []
            self._histories[key] = {int(point.step): float(point.value) for point in logged}
        return self._histories[key]

    @cached_property
    def common_lr(self) -> float | None:
        """The learning rate at which paths are compared: the one that does best overall.

        Of those that every strategy has tried, the one with the best mean over strategies of each one's best there;
        where there is none, that of the best trial.
        """
        stated = self.tags.get(names.COMMON_LR, "None")  # single-task networks alone have none to state
        if stated != "None":
            return float(stated)
        metric, sign = names.best_metric(self.objective.metric), self.sign
        reached: dict[float, dict[str, dict[str, list[float]]]] = {}
        for run in self.trials:
            if run.ranked and metric in run.metrics and self.shares_trunk(run.strategy):
                configs = reached.setdefault(run.lr, {}).setdefault(run.strategy, {})
                configs.setdefault(without_seed(run.config), []).append(sign * run.metrics[metric])
        sharing = {run.strategy for run in self.trials if self.shares_trunk(run.strategy)}
        best = {
            lr: math.fsum(min(map(statistics.fmean, configs.values())) for configs in strategies.values())
            for lr, strategies in reached.items()
            if strategies.keys() == sharing
        }
        if best:
            return min(best, key=lambda lr: best[lr])
        return next((float(won.config["lr"]) for name, won in self.winners.items() if self.shares_trunk(name)), None)

    @cached_property
    def grid_has_paths(self) -> bool:
        """Return whether the search itself, a grid, ran every strategy to the end at the common learning rate."""
        if (self.settings.get("algorithm"), self.settings.get("scheduler")) != ("grid", "none"):
            return False
        at_it = {run.strategy for run in self.trials if run.lr == self.common_lr and run.outcome == Outcome.COMPLETED}
        return at_it >= {strategy for strategy in self.winners if self.shares_trunk(strategy)}

    def paths(self) -> dict[str, list[Trained]]:
        """Return by variant the whole runs at the common learning rate, on the same seeds; empty if there are none."""
        again = [*self.confirmed(names.CONFIRM), *self.confirmed(names.COMMON_PATH)]
        whole = [run for run in (self.trials if self.grid_has_paths else again) if run.outcome == Outcome.COMPLETED]
        at_it = [run for run in whole if run.lr == self.common_lr and "path/best_total" in run.metrics]
        if not self.grid_has_paths:  # a tuning may have chosen this rate with other groups, on its seed alone
            at_it = [run for run in at_it if run.groups == _group_count(self.winners[run.strategy].config)]
            again = self.rerun(names.COMMON_PATH)  # who was not asked for may be here by chance, on other seeds
            asked, whose = {one.config["seed"] for one in again}, {one.strategy for one in again}
            there = {(run.strategy, run.config["seed"]) for run in at_it}
            at_it = [run for run in at_it if run.strategy in whose or {(run.strategy, seed) for seed in asked} <= there]
        reference = next((won.config for name, won in self.winners.items() if self.shares_trunk(name)), {})
        found = _by_variant(run for run in at_it if run.shared == shared_values(reference))
        if not found:
            return {}
        shared = set.intersection(*({run.config["seed"] for run in runs} for runs in found.values()))
        found = {name: [run for run in runs if run.config["seed"] in shared] for name, runs in found.items() if shared}
        order = {strategy: index for index, strategy in enumerate(entries)}
        first = {name: runs[0] for name, runs in found.items()}
        ordered = sorted(first, key=lambda name: (order.get(first[name].strategy, len(order)), first[name].groups or 0))
        return {name: found[name] for name in ordered}


_FREE_BY_ROLE = {names.EQUAL_UPDATES: ("max_updates", "epochs")}
"""What a confirming run may have otherwise than the winner, besides the seed."""

_OF_A_STRATEGY = (
    "strategy", "strategy_from", "lr", "groups", "groups_seed", "groups_by", "seed", "epochs", "max_updates",
    "max_seconds", "diagnose_every", "diagnose_samples",
)  # fmt: skip
"""What two strategies may have differently and still be compared like with like."""


def _group_count(config: Mapping[str, Any]) -> int | None:
    groups = config.get("groups")
    return len(groups) if isinstance(groups, list) else groups


def shared_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of ``config`` has nothing to do with its strategy: network, optimizer, batch size, ..."""
    own = f"{config.get('strategy', '')}_"
    return {key: value for key, value in config.items() if key not in _OF_A_STRATEGY and not key.startswith(own)}


def without_seed(config: Mapping[str, Any]) -> str:
    """Return a config as a text that is the same for every seed."""
    return json.dumps({key: value for key, value in config.items() if key != "seed"}, sort_keys=True)


def _by_variant(runs: Iterable[Trained]) -> dict[str, list[Trained]]:
    """Return runs by strategy and groups, each config's own options aside: the first seen of a seed counts."""
    found: dict[str, dict[int, Trained]] = {}
    for run in runs:
        found.setdefault(run.variant, {}).setdefault(int(run.config["seed"]), run)
    return {name: [runs[seed] for seed in sorted(runs)] for name, runs in found.items()}


def _artifact(store: "StoreClient", run_id: str, file: str) -> dict[str, Any]:
    """Return a JSON artifact of a run; empty for runs that have none."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return dict(json.loads(Path(store.download_artifacts(run_id, file, scratch)).read_text()))
        except Exception:  # each artifact store has its own way to say that there is no such file
            return {}
