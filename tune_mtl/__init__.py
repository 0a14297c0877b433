"""Which multi-task optimisation strategy, how many task groups, at which learning rate - for your problem?

Everything here is loaded when it is first used: importing ``tune_mtl`` loads neither torch, ray nor mlflow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tune_mtl.core.process.loading import loading
from tune_mtl.core.version import VERSION

if TYPE_CHECKING:
    from tune_mtl import testing
    from tune_mtl.core.data import Batch, Data, DatasetData, TensorData
    from tune_mtl.core.errors import UserError
    from tune_mtl.core.model import MultiTaskModel
    from tune_mtl.core.objective import Objective
    from tune_mtl.core.options import Options, ShareOfRun, Tunable, TunableCount
    from tune_mtl.core.problem import Problem
    from tune_mtl.core.task import Task
    from tune_mtl.experiment.confirm import confirm
    from tune_mtl.experiment.factorial import factorial
    from tune_mtl.experiment.reproduction.run import Reproduction, reproduce
    from tune_mtl.experiment.search import extend, resume, search
    from tune_mtl.experiment.search_result import SearchResult
    from tune_mtl.exporting.deliver import Exported
    from tune_mtl.problems.registry import load_problem
    from tune_mtl.reporting import report
    from tune_mtl.reporting.groups import GroupFindings, group_findings
    from tune_mtl.reporting.verdict import verdict
    from tune_mtl.reporting.write import Report, paper_claims
    from tune_mtl.results.best_trial import BestTrial
    from tune_mtl.results.searches import best, export, trials
    from tune_mtl.strategies.base import Strategy
    from tune_mtl.strategies.info import StrategyInfo
    from tune_mtl.strategies.labels import Labelled, Losses
    from tune_mtl.strategies.make import make_strategy
    from tune_mtl.training.examination.examine import check_problem
    from tune_mtl.training.examination.finding import Finding
    from tune_mtl.training.path import PathLength
    from tune_mtl.training.trial import TrialResult, train

__version__ = VERSION

_HOMES = {
    "Batch": "tune_mtl.core.data",
    "BestTrial": "tune_mtl.results.best_trial",
    "Data": "tune_mtl.core.data",
    "DatasetData": "tune_mtl.core.data",
    "Exported": "tune_mtl.exporting.deliver",
    "Finding": "tune_mtl.training.examination.finding",
    "GroupFindings": "tune_mtl.reporting.groups",
    "Labelled": "tune_mtl.strategies.labels",
    "Losses": "tune_mtl.strategies.labels",
    "MultiTaskModel": "tune_mtl.core.model",
    "Objective": "tune_mtl.core.objective",
    "Options": "tune_mtl.core.options",
    "PathLength": "tune_mtl.training.path",
    "Problem": "tune_mtl.core.problem",
    "Report": "tune_mtl.reporting.write",
    "Reproduction": "tune_mtl.experiment.reproduction.run",
    "SearchResult": "tune_mtl.experiment.search_result",
    "ShareOfRun": "tune_mtl.core.options",
    "Strategy": "tune_mtl.strategies.base",
    "StrategyInfo": "tune_mtl.strategies.info",
    "Task": "tune_mtl.core.task",
    "TensorData": "tune_mtl.core.data",
    "TrialResult": "tune_mtl.training.trial",
    "Tunable": "tune_mtl.core.options",
    "TunableCount": "tune_mtl.core.options",
    "UserError": "tune_mtl.core.errors",
    "best": "tune_mtl.results.searches",
    "check_problem": "tune_mtl.training.examination.examine",
    "confirm": "tune_mtl.experiment.confirm",
    "export": "tune_mtl.results.searches",
    "extend": "tune_mtl.experiment.search",
    "factorial": "tune_mtl.experiment.factorial",
    "group_findings": "tune_mtl.reporting.groups",
    "load_problem": "tune_mtl.problems.registry",
    "make_strategy": "tune_mtl.strategies.make",
    "paper_claims": "tune_mtl.reporting.write",
    "report": "tune_mtl.reporting",
    "reproduce": "tune_mtl.experiment.reproduction.run",
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
    "GroupFindings",
    "Labelled",
    "Losses",
    "MultiTaskModel",
    "Objective",
    "Options",
    "PathLength",
    "Problem",
    "Report",
    "Reproduction",
    "SearchResult",
    "ShareOfRun",
    "Strategy",
    "StrategyInfo",
    "Task",
    "TensorData",
    "TrialResult",
    "Tunable",
    "TunableCount",
    "UserError",
    "best",
    "check_problem",
    "confirm",
    "export",
    "extend",
    "factorial",
    "group_findings",
    "load_problem",
    "make_strategy",
    "paper_claims",
    "report",
    "reproduce",
    "resume",
    "search",
    "testing",
    "train",
    "trials",
    "verdict",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("tune_mtl.testing")
    if name not in _HOMES:
        raise AttributeError(f"module 'tune_mtl' has no attribute {name!r}")
    with loading():
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
