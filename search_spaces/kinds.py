"""Which numbers a key of a config takes: whole ones, or all. A range is written alike for both."""

import inspect
from typing import TYPE_CHECKING, Any, get_type_hints

from search_spaces.conditions import owner_of
from tune_mtl.core.options import Options, ShareOfRun, kinds
from tune_mtl.strategies.optimizers import OptimizerInfo, optimizer_info
from tune_mtl.strategies.recipe import ClipOptions
from tune_mtl.strategies.registry import everyone
from tune_mtl.strategies.schedules import ScheduleInfo, schedule_info
from tune_mtl.training.config import Config

if TYPE_CHECKING:
    from tune_mtl.core.problem import Problem

_MODEL = "model_"

Kind = type[int] | type[float] | None


def kind_of(problem: "Problem", key: str) -> Kind:
    """Return ``int`` or ``float`` if the key takes only such numbers, as far as that is known; else None."""
    option = key.partition(".")[0]
    if key != option:
        return None
    if option in Config.model_fields:
        return _of_field(Config, option)
    if option.startswith(_MODEL):
        return _of_parameter(problem.model, option.removeprefix(_MODEL))
    owned = owner_of(option)
    if owned is not None:
        part, owner = owned
        info: OptimizerInfo | ScheduleInfo = optimizer_info(owner) if part == "optimizer" else schedule_info(owner)
        return _of_field(info.options, option.removeprefix(f"{owner}_"))
    records: dict[str, type[Options]] = {
        "clip": ClipOptions,
        **{name: info.options for name, info in everyone().items()},
    }
    for owner, record in records.items():
        name = option.removeprefix(f"{owner}_")
        if option.startswith(f"{owner}_") and name in record.model_fields:
            return _of_field(record, name)
    return None


def _of_field(record: type[Options], name: str) -> Kind:
    if name in record.marked(ShareOfRun):  # whole numbers are mini-batches, others are shares
        return None
    return _only(set(kinds(record.model_fields[name].annotation)))


def _of_parameter(model: Any, name: str) -> Kind:
    parameter = inspect.signature(model).parameters.get(name)
    if parameter is None:
        return None
    try:
        hint = get_type_hints(model).get(name)
    except Exception:  # names that only a type checker knows
        hint = None
    return _only({type(parameter.default)} if hint is None else set(kinds(hint)))


def _only(found: set[Any]) -> Kind:
    if int in found:
        return None if float in found else int
    return float if float in found else None
