"""The space that a search with the same options would search, as a file that says so."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from search_spaces import Choice, Dimension, Space, space_names
from search_spaces.files import is_file, text_of
from tune_mtl.core.options import build
from tune_mtl.core.problem import Problem
from tune_mtl.experiment.planning.contestants import with_contestants
from tune_mtl.experiment.planning.every_strategy import with_every_strategy
from tune_mtl.experiment.planning.parts import with_part_names
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.searched import NEVER, base_space, with_space
from tune_mtl.experiment.planning.task_reference import with_task_reference
from tune_mtl.problems.registry import PROBLEM, load_problem
from tune_mtl.results.settings import Settings
from tune_mtl.strategies.parts import PARTS, reference_of_part
from tune_mtl.strategies.registry import reference_of


def effective_space(problem: Problem, options: Mapping[str, Any]) -> Space:
    """Return what a search of ``problem`` with these options tries, on the seeds that a grid takes.

    What is the same for all trials and no choice of theirs, such as their length, is no part of it.

    Raises:
        UserError: for what cannot be searched.
    """
    given = with_task_reference(with_part_names(with_contestants(with_space(options))))
    given, _ = with_every_strategy(problem, given)
    settings = build(Settings, {"problem": problem.name, "name": "effective", "replicates": 1, **given})
    space = replace(Plan.make(problem, settings).space, seeds=base_space(problem, given).seeds)

    def kept(dimensions: Mapping[str, Dimension]) -> dict[str, Dimension]:
        return {
            key: _by_reference(key, its)
            for key, its in dimensions.items()
            if key not in NEVER and not key.startswith(PROBLEM)
        }

    return replace(
        space,
        dimensions=kept(space.dimensions),
        per_strategy={name: kept(space.per_strategy.get(name, {})) for name in space.strategies},
    )


def _by_reference(key: str, dimension: Dimension) -> Dimension:
    """Return the dimension with optimizers and schedules that were brought named by where they are found."""
    if key not in PARTS:
        return dimension
    return Choice(tuple(reference_of_part(key, str(name)) or name for name in dimension.points()))


def effective_space_text(problem: str | Problem, options: Mapping[str, Any]) -> str:
    """Return the effective space as a file for ``--space``, which begins with its name and those of others.

    Raises:
        UserError: for what cannot be searched.
    """
    loaded = load_problem(problem, options.get("fixed"))
    asked = options.get("space") or "wide"
    space = effective_space(loaded, options)
    others = [name for name in space_names(loaded) if name != asked]
    where = f"from {asked}" if is_file(asked) else f"'{asked}'; others: {', '.join(others)} (--space NAME)"
    head = f"# What a search of {loaded.name} tries: space {where}.\n# Search it, changed or not: --space FILE.yaml\n"
    return head + text_of(space, lambda name: reference_of(name) or name)
