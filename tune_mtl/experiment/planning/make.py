"""From what a user asks for to a plan. Loads neither Ray nor MLflow: a plan that is only shown needs none of them."""

import os
import time
from dataclasses import replace
from typing import Any

from tune_mtl.core.options import build
from tune_mtl.core.problem import Problem
from tune_mtl.experiment.planning.every_strategy import with_every_strategy
from tune_mtl.experiment.planning.paper import as_the_paper
from tune_mtl.experiment.planning.plan import Plan, default_replicates
from tune_mtl.experiment.planning.readiness import require_trainable
from tune_mtl.experiment.planning.settings import Settings
from tune_mtl.problems.registry import load_problem

SWITCH = "TUNE_MTL_EXPORT"
"""Set to 0, no search exports its winner unless it is told to."""


def exports_by_default() -> bool:
    """Return whether a search that does not say otherwise exports its winner."""
    return os.environ.get(SWITCH, "1") != "0"


def plan_search(problem: str | Problem, **options: Any) -> Plan:
    """Return what :func:`tune_mtl.search` would run with the same arguments."""
    given = {key: value for key, value in options.items() if value is not None}
    loaded = load_problem(problem, given.get("fixed"))
    name = problem if isinstance(problem, str) else loaded.name
    if given.get("space") == "paper":
        loaded, given = as_the_paper(problem, loaded, given)
    require_trainable(loaded, given, problem if isinstance(problem, str) else None)
    given, left_out = with_every_strategy(loaded, given)
    given.setdefault("replicates", default_replicates(loaded, given))
    if given["replicates"] != 1:
        given.setdefault("confirm", 1)
    given.setdefault("export", exports_by_default())
    given.setdefault("name", f"{loaded.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    return replace(Plan.make(loaded, build(Settings, {"problem": name, **given})), left_out=left_out)
