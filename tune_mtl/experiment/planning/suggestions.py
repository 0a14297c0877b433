"""Samplers that users bring to a search: by their references in settings, and tried before it starts."""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tune_mtl.core.imports import is_reference
from tune_mtl.experiment.planning.plan import Plan

logger = logging.getLogger(__name__)


def with_sampler(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with an ``algorithm`` that was given as a class or function by its reference.

    Raises:
        UserError: for what is neither, nor a name.
    """
    asked = given.get("algorithm")
    if asked is None or isinstance(asked, str):
        return dict(given)
    from tune_mtl.ray_tune.samplers import admit_sampler  # it loads Optuna, which most plans can do without

    return {**given, "algorithm": admit_sampler(asked)}


def take_first_suggestions(plan: Plan) -> None:
    """Have a sampler that is not built in make some suggestions; what it cannot do is said before a search starts.

    Raises:
        UserError: if it fails, or no killed search could be resumed with it.
    """
    settings = plan.settings
    if not is_reference(settings.algorithm):
        return
    from tune_mtl.ray_tune.rehearsal import rehearse

    fewest = min(Counter((turn.strategy, turn.replicate) for turn in plan.turns).values())
    for said in rehearse(settings.algorithm, plan.space, fewest, must_learn=settings.warm_start is not None):
        logger.warning("warning: %s", said)
