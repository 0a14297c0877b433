"""The problem is looked at before a search plans anything."""

import logging
from collections.abc import Mapping
from typing import Any

from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.training.examination.examine import require_ready

logger = logging.getLogger(__name__)


def require_trainable(problem: Problem, given: Mapping[str, Any], name: str | None) -> None:
    """Refuse a problem that cannot be trained. Data that only the nodes of a cluster have are left to the trials.

    Args:
        problem: What is learned.
        given: Settings of the search.
        name: How a command names the problem; None if it has no name.

    Raises:
        UserError: with the first finding.
    """
    if given.get("address") is not None and (why := _not_here(problem)) is not None:
        logger.warning("warning: the data are not on this machine (%s): trials will say if something is wrong.", why)
        return
    require_ready(problem, given.get("fixed") or {}, name)


def _not_here(problem: Problem) -> str | None:
    try:
        with isolated():
            problem.data("train")
    except OSError as error:
        return " ".join(str(error).split())
    except Exception:  # the examination says it better
        return None
    return None
