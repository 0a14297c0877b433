"""Which controls can change what a report says: docs/statistics.md has the rule."""

from collections.abc import Mapping
from dataclasses import dataclass

from tune_mtl.reporting.claims import BASE, INDIVIDUAL, Findings, ahead_of_base
from tune_mtl.reporting.results import Results, takes_fewer_updates
from tune_mtl.results.accepted import CONTROLLED
from tune_mtl.tracking import names


@dataclass(frozen=True)
class Controls:
    """The strategies whose controls are trained, by kind.

    Attributes:
        equal_updates: With as many updates as the one that takes most.
        common_rate: At the learning rate that all share.
    """

    equal_updates: frozenset[str]
    common_rate: frozenset[str]

    @property
    def of_role(self) -> Mapping[str, frozenset[str]]:
        """The strategies by the role of such runs."""
        return {names.EQUAL_UPDATES: self.equal_updates, names.COMMON_PATH: self.common_rate}


def controls_that_matter(results: Results) -> Controls:
    """Return whose controls can change the answer or a claim, by what confirmation has found.

    Equal updates: an advantage may be one of more steps. So whoever is told to be worse than the best and takes fewer
    steps than that is asked again, the best itself too where another takes more; and ``sus`` where ``ius`` or ``io``
    is ahead of it, with both of them, for the claim that this survives.

    The common learning rate: a disadvantage may be one of poor tuning, so whoever is told to be worse than the best is
    asked; and distances are compared there, of ``sus`` with ``ius`` and ``io``, which is what the claims are about.
    """
    search = results.search
    sharing = [name for name in results.runs if search.shares_trunk(name)]
    if not results.confirmed:
        return Controls(frozenset(), frozenset())
    best = next(iter(results.runs))
    worse = [name for name in _told_worse(results, best) if name in sharing]
    individual = [name for name in INDIVIDUAL if name in sharing]
    by_rate = {*worse, *([BASE, *individual] if BASE in sharing and individual else [])}
    by_steps = {name for name in worse if best in sharing and takes_fewer_updates(results, name, [best])}
    one = Findings(search, results)
    if BASE in sharing and any(ahead_of_base(one, name) for name in individual):
        by_steps |= {BASE}
    if BASE in by_steps:
        by_steps |= set(individual)
    if by_steps and best in sharing:
        by_steps |= {best}
    return Controls(frozenset(by_steps), frozenset(by_rate))


def _told_worse(results: Results, best: str) -> list[str]:
    """Return who is said to be worse than ``best``: strategies, or with one tuning of each their configs."""
    return [
        name
        for name, one in results.against(best).items()
        if (one.told_apart if results.tells_strategies else one.significant)
        and results.search.sign * one.difference > 0
    ]


def left_out(results: Results) -> Mapping[str, list[str]]:
    """Return by role whose controls were left out, since they could change nothing; empty where all were asked for."""
    search = results.search
    if search.settings.get("controls") != "auto" or not results.confirmed:
        return {}
    sharing = [name for name in results.runs if search.shares_trunk(name)]
    lacking = {
        role: [name for name in sharing if name not in wanted and not search.rerun(role, name)]
        for role, wanted in controls_that_matter(results).of_role.items()
    }
    by_epochs = search.settings.get("budget", "epochs") == "epochs"
    fewer = [name for name in lacking[names.EQUAL_UPDATES] if takes_fewer_updates(results, name, sharing)]
    rates = [] if search.grid_has_paths else lacking[names.COMMON_PATH]
    return {names.EQUAL_UPDATES: fewer if by_epochs else [], names.COMMON_PATH: rates}


def left_out_text(results: Results) -> list[str]:
    """Say which controls were left out, why, and what would train them."""
    kinds = {
        names.EQUAL_UPDATES: "runs with as many updates as the one that takes most",
        names.COMMON_PATH: "runs at the common learning rate",
    }
    said = [f"{kinds[role]}, of {', '.join(whose)}" for role, whose in left_out(results).items() if whose]
    if not said:
        return []
    return [
        f"Left out, since they could explain no difference that is told here: {'; '.join(said)}."
        f" tune-mtl confirm {results.search.name} --controls {CONTROLLED} trains them."
    ]
