"""How far a search of a reproduction has come, by its fixed name: what is finished is not run again."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.experiment.manage import saved_settings
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.results.searches import all_searches
from tune_mtl.results.settings import Settings
from tune_mtl.tracking import names
from tune_mtl.tracking.sqlite_file import trouble_with_file
from tune_mtl.tracking.store import client

_NOT_COMPARED = frozenset(
    {"address", "storage", "tracking_uri", "concurrency", "cpus_per_trial", "gpus_per_trial", "version", "format"}
)
"""Where and how fast a search runs, which changes between commands."""


class Step(Enum):
    """What has to be done for a search."""

    START = "not begun"
    RESUME = "interrupted"
    CONFIRM = "to be confirmed"
    DONE = "finished"


def next_step(plan: Plan) -> Step:
    """Return what has to be done for the search of ``plan``.

    Raises:
        UserError: if there is a search of that name with other settings.
    """
    known = _parent(plan)
    if not (plan.folder / names.SETTINGS_FILE).exists() and known is None:
        return Step.START
    given = plan.settings
    saved = saved_settings(given.name, storage=given.storage, tracking_uri=given.tracking_uri)
    _check_same(saved, given)
    if known is None or known.info.status != "FINISHED":
        return Step.RESUME
    return Step.DONE if known.data.tags.get(names.CONFIRMATION) == "complete" else Step.CONFIRM


def _parent(plan: Plan) -> Any:
    """Return the search's own run, None if there is none."""
    try:
        return all_searches(client(plan.tracking_uri)).get(plan.settings.name)
    except UserError:
        raise
    except Exception as error:
        trouble = trouble_with_file(error)
        if trouble is None:
            raise
        raise UserError(trouble) from error


def _check_same(saved: Settings, planned: Settings) -> None:
    """Refuse a search that was asked for otherwise: its numbers would answer another question."""
    its, ours = _compared(saved), _compared(planned)
    differing = [key for key in ours if its.get(key) != ours[key]]
    if differing:
        said = "; ".join(f"{key} {its.get(key)!r}, here {ours[key]!r}" for key in differing)
        raise UserError(
            f"search '{planned.name}' exists with other settings ({said}): tune-mtl rm {planned.name} makes the name"
            " free."
        )


def _compared(settings: Settings) -> Mapping[str, Any]:
    return {key: value for key, value in settings.public().items() if key not in _NOT_COMPARED}
