"""The spaces that every problem has, built from the registry and its number of tasks."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from search_spaces.space import Choice, Dimension, IntRange, LogRange, Range, Space, check_known
from tune_mtl.core.options import Options, Tunable, TunableCount, flat_names
from tune_mtl.problems.registry import problems
from tune_mtl.strategies.registry import everyone, strategy_info

if TYPE_CHECKING:
    from tune_mtl.core.problem import Problem
    from tune_mtl.strategies.info import StrategyInfo

DEFAULT_STRATEGIES = ("sus", "ius", "io")
PAPER_STRATEGIES = (*DEFAULT_STRATEGIES, "gradnorm", "pcgrad")
"""Those of the paper that any trunk can have; Maximum Roaming needs convolutions."""
PAPER_SEEDS = (0, 1, 2)


def group_counts(tasks: int) -> tuple[int, ...]:
    """Return how many groups are worth trying with N tasks: the powers of two below N, and N itself."""
    return tuple(dict.fromkeys([*(2**power for power in range(1, tasks.bit_length()) if 2**power < tasks), tasks]))


def own_dimensions(info: "StrategyInfo", tasks: list[str], counts: tuple[int, ...]) -> dict[str, Dimension]:
    """Return the dimensions that only some strategies have: groups, and what their records say of their options."""
    own: dict[str, Dimension] = {"groups": Choice(counts)} if info.has_groups else {}
    if "weights" in info.options.model_fields:
        own |= {f"{info.name}_weights.{task}": LogRange(0.1, 10.0, (0.1, 1.0, 10.0)) for task in tasks}
    return own


def tunable_dimensions(info: "StrategyInfo", tasks: int) -> dict[str, Dimension]:
    """Return the options of a strategy that its record marks as worth searching, with so many tasks."""
    found = tunable_options(info.name, info.options)
    for option, mark in info.options.marked(TunableCount).items():
        found[f"{info.name}_{option}"] = IntRange(mark.least, mark.most(tasks))
    return found


def tunable_options(owner: str, options: type[Options]) -> dict[str, Dimension]:
    """Return the options of a strategy, an optimizer or a schedule that are marked as worth searching, by flat name."""
    return {f"{owner}_{option}": dimension(mark) for option, mark in options.marked(Tunable).items()}


def dimension(mark: Tunable) -> Dimension:
    """Return the dimension that a mark asks for."""
    if mark.low is None or mark.high is None:
        return Choice(mark.values)
    return LogRange(mark.low, mark.high) if mark.log else Range(mark.low, mark.high)


def make_spaces(
    tasks: list[str],
    *,
    paper_lr: LogRange,
    wide_lr: LogRange,
    paper_counts: tuple[int, ...] | None = None,
    wide_counts: tuple[int, ...] | None = None,
    paper_strategies: tuple[str, ...] = PAPER_STRATEGIES,
    paper_options: Mapping[str, Any] | None = None,
) -> dict[str, Space]:
    """``paper``: the paper's protocol, a grid on three seeds. ``wide``: everything, for a guided search.

    Args:
        tasks: Their names.
        paper_lr, wide_lr: Learning rates of each.
        paper_counts, wide_counts: Group counts of each; default: powers of two, and one group per task.
        paper_strategies: Those that the paper compares.
        paper_options: Options with which it does, where they are not the defaults.
    """
    counts = group_counts(len(tasks))
    few, many = (
        tuple(count for count in given or counts if count <= len(tasks)) or counts
        for given in (paper_counts, wide_counts)
    )
    known = everyone()
    papers = {name: own_dimensions(info, tasks, few) for name, info in known.items()}
    with_options = {
        name: {**own_dimensions(info, tasks, many), **tunable_dimensions(info, len(tasks))}
        for name, info in known.items()
    }
    return {
        "paper": Space(
            name="paper",
            strategies=paper_strategies,
            dimensions={"lr": paper_lr},
            per_strategy={
                name: {
                    **own,
                    **{key: Choice((value,)) for key, value in (paper_options or {}).items() if owns(name, key)},
                }
                for name, own in papers.items()
            },
            seeds=PAPER_SEEDS,
        ),
        "wide": Space(
            name="wide", strategies=DEFAULT_STRATEGIES, dimensions={"lr": wide_lr}, per_strategy=with_options
        ),
    }


def owns(strategy: str, key: str) -> bool:
    """Return whether ``key`` is an option of ``strategy``."""
    return key in flat_names({strategy: strategy_info(strategy).options})


def spaces_of(problem: "Problem") -> dict[str, Space]:
    """Return the default spaces, then the built-in problem's, then the ones that the problem brings itself."""
    tasks = [task.name for task in problem.tasks]
    spaces = make_spaces(tasks, paper_lr=LogRange(5e-5, 5e-3), wide_lr=LogRange(1e-5, 1e-1))
    if problem.name in problems:
        module = importlib.import_module(f"search_spaces.{problem.name}")
        spaces |= module.spaces(tasks)
    own: Mapping[str, Space] = problem.spaces
    return spaces | dict(own)


def find_space(problem: "Problem", name: str) -> Space:
    """Return the space ``name`` of ``problem``.

    Raises:
        UserError: if it has none of that name.
    """
    spaces = spaces_of(problem)
    check_known(name, list(spaces), "space")
    return spaces[name]


def space_names(problem: "Problem") -> list[str]:
    """Return the names of the spaces that :func:`find_space` knows."""
    return list(spaces_of(problem))
