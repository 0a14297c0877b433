"""Which multi-task optimisation strategy, how many task groups, at which learning rate - for your problem?

Everything here is loaded when it is first used: importing ``tune_mtl`` loads neither torch, ray nor mlflow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_mtl.core.data import Batch, Data, DatasetData, TensorData
    from tune_mtl.core.errors import UserError
    from tune_mtl.core.model import MultiTaskModel
    from tune_mtl.core.objective import Objective
    from tune_mtl.core.problem import Problem
    from tune_mtl.core.task import Task
    from tune_mtl.experiment.confirm import confirm
    from tune_mtl.experiment.search import extend, resume, search
    from tune_mtl.experiment.search_result import SearchResult
    from tune_mtl.exporting.deliver import Exported
    from tune_mtl.problems.registry import load_problem
    from tune_mtl.reporting import report
    from tune_mtl.reporting.verdict import verdict
    from tune_mtl.reporting.write import Report, paper_claims
    from tune_mtl.results.best_trial import BestTrial
    from tune_mtl.results.searches import best, export, trials
    from tune_mtl.strategies.base import Strategy
    from tune_mtl.strategies.make import make_strategy
    from tune_mtl.training.examination.examine import check_problem
    from tune_mtl.training.examination.finding import Finding
    from tune_mtl.training.path import PathLength
    from tune_mtl.training.trial import TrialResult, train

_HOMES = {
    "Batch": "tune_mtl.core.data",
    "BestTrial": "tune_mtl.results.best_trial",
    "Data": "tune_mtl.core.data",
    "DatasetData": "tune_mtl.core.data",
    "Exported": "tune_mtl.exporting.deliver",
    "Finding": "tune_mtl.training.examination.finding",
    "MultiTaskModel": "tune_mtl.core.model",
    "Objective": "tune_mtl.core.objective",
    "PathLength": "tune_mtl.training.path",
    "Problem": "tune_mtl.core.problem",
    "Report": "tune_mtl.reporting.write",
    "SearchResult": "tune_mtl.experiment.search_result",
    "Strategy": "tune_mtl.strategies.base",
    "Task": "tune_mtl.core.task",
    "TensorData": "tune_mtl.core.data",
    "TrialResult": "tune_mtl.training.trial",
    "UserError": "tune_mtl.core.errors",
    "best": "tune_mtl.results.searches",
    "check_problem": "tune_mtl.training.examination.examine",
    "confirm": "tune_mtl.experiment.confirm",
    "export": "tune_mtl.results.searches",
    "extend": "tune_mtl.experiment.search",
    "load_problem": "tune_mtl.problems.registry",
    "make_strategy": "tune_mtl.strategies.make",
    "paper_claims": "tune_mtl.reporting.write",
    "report": "tune_mtl.reporting",
    "resume": "tune_mtl.experiment.search",
    "search": "tune_mtl.experiment.search",
    "train": "tune_mtl.training.trial",
    "trials": "tune_mtl.results.searches",
    "verdict": "tune_mtl.reporting.verdict",
}

__all__ = [
    "Batch",
    "BestTrial",
    "Data",
    "DatasetData",
    "Exported",
    "Finding",
    "MultiTaskModel",
    "Objective",
    "PathLength",
    "Problem",
    "Report",
    "SearchResult",
    "Strategy",
    "Task",
    "TensorData",
    "TrialResult",
    "UserError",
    "best",
    "check_problem",
    "confirm",
    "export",
    "extend",
    "load_problem",
    "make_strategy",
    "paper_claims",
    "report",
    "resume",
    "search",
    "train",
    "trials",
    "verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tune_mtl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
