"""Whether a diagnosis can be had."""

from collections.abc import Mapping, Sequence
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.registry import known_strategy, strategy_info

DIAGNOSIS_KEYS = ("diagnose_every", "diagnose_samples")
"""What a config says of its diagnosis: no number of a trial depends on it."""


_TASKS_AT_EACH_EPOCH = 13
"""So many tasks can be looked at after each epoch for a few percent of its time, also where epochs are short."""


def usual_pace(tasks: int) -> int:
    """Return the epochs between two looks, unless somebody says otherwise: a look passes back once for each task."""
    return max(1, round(tasks / _TASKS_AT_EACH_EPOCH))


def check_diagnosis(info: StrategyInfo, tasks: int, every: int | None, samples: int | None) -> None:
    """Refuse a diagnosis that has nothing to look at.

    Raises:
        UserError: for a strategy whose tasks share no trunk, a problem with one task, or samples that nobody looks at.
    """
    if every is None:
        if samples is not None:
            raise UserError(f"diagnose_samples={samples} needs diagnose_every: how many epochs are between two looks.")
        return
    if not info.shares_trunk:
        raise UserError(
            f"strategy '{info.name}' cannot be diagnosed: its tasks share no trunk, so their gradients never meet."
            " Drop --diagnose (diagnose_every) or choose another strategy."
        )
    if tasks < 2:
        raise UserError("a problem with one task cannot be diagnosed: there are no gradients to compare.")


def check_diagnosed(asked: Mapping[str, int], strategies: Sequence[str], tasks: int) -> None:
    """Refuse a diagnosis of a search whose strategies have nothing to look at; those that do not are left out of it.

    Raises:
        UserError: as :func:`check_diagnosis`.
    """
    sharing = [name for name in strategies if known_strategy(name).shares_trunk]
    if asked:
        info = strategy_info(next(iter(sharing or strategies)))
        check_diagnosis(info, tasks, asked["diagnose_every"], asked.get("diagnose_samples"))


def where_possible(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without the wish for a diagnosis where the tasks of its strategy share no trunk."""
    if known_strategy(config["strategy"]).shares_trunk:
        return dict(config)
    return {key: value for key, value in config.items() if key not in DIAGNOSIS_KEYS}
