"""From what a user asks for to a plan. Loads neither Ray nor MLflow: a plan that is only shown needs none of them."""

import os
import time
from dataclasses import replace
from typing import Any, Unpack

from tune_mtl.core.options import build
from tune_mtl.core.problem import Problem
from tune_mtl.core.version import VERSION
from tune_mtl.experiment.planning.checkpoints import require_checkpoints
from tune_mtl.experiment.planning.contestants import with_contestants
from tune_mtl.experiment.planning.every_strategy import with_every_strategy
from tune_mtl.experiment.planning.first_steps import take_first_steps
from tune_mtl.experiment.planning.networks import require_networks
from tune_mtl.experiment.planning.paper import as_the_paper
from tune_mtl.experiment.planning.parts import with_part_names
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.readiness import require_trainable
from tune_mtl.experiment.planning.replication import default_replicates
from tune_mtl.experiment.planning.searched import with_space
from tune_mtl.experiment.planning.suggestions import take_first_suggestions, with_sampler
from tune_mtl.experiment.planning.task_reference import with_task_reference
from tune_mtl.problems.registry import load_problem
from tune_mtl.results.search_options import SearchOptions
from tune_mtl.results.settings import FORMAT, Settings, implied

SWITCH = "TUNE_MTL_EXPORT"
"""Set to 0, no search exports its winner unless it is told to."""


def exports_by_default() -> bool:
    """Return whether a search that does not say otherwise exports its winner."""
    return os.environ.get(SWITCH, "1") != "0"


def plan_search(problem: str | Problem, **options: Unpack[SearchOptions]) -> Plan:
    """Return what :func:`tune_mtl.search` would run with the same arguments."""
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    loaded = load_problem(problem, given.get("fixed"))
    name = problem if isinstance(problem, str) else loaded.name
    given = with_task_reference(with_part_names(with_contestants(with_space(with_sampler(given)))))
    if given.get("space") == "paper":
        loaded, given = as_the_paper(problem, loaded, given)
    require_trainable(loaded, given, problem if isinstance(problem, str) else None)
    given, left_out = with_every_strategy(loaded, given)
    given |= implied(given)
    given.setdefault("replicates", default_replicates(loaded, given))
    given |= implied(given)
    given.setdefault("export", exports_by_default())
    given.setdefault("name", f"{loaded.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    settings = build(Settings, {"problem": name, "version": VERSION, "format": FORMAT, **given})
    plan = replace(Plan.make(loaded, settings), left_out=left_out)
    require_networks(plan)
    take_first_suggestions(plan)
    take_first_steps(plan)
    require_checkpoints(plan)
    return plan
