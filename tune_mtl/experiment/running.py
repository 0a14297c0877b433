"""A plan's trials on Ray: their workload, and who follows them."""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import torch

from tune_mtl.core.problem import Problem
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.ray_tune.trials import Followers, Workload
from tune_mtl.strategies.parts import PARTS
from tune_mtl.terminal.live_view import LiveView
from tune_mtl.tracking import names
from tune_mtl.tracking.progress import Progress
from tune_mtl.tracking.tracker import Tracker
from tune_mtl.training import checkpoint
from tune_mtl.training.trial import environment


def workload(plan: Plan, *, test: bool = False) -> Workload:
    """Return what every trial of a plan trains, and what it may use."""
    settings = plan.settings
    return Workload(
        problem=plan.problem,
        name=settings.problem,
        options=settings.fixed,
        strategies=plan.space.strategies,
        parts=[(part, name) for part in PARTS for name in plan.tried(part)],
        cpus=settings.cpus_per_trial,
        gpus=settings.gpus_per_trial,
        at_once=settings.concurrency,
        test=test,
    )


def followers(
    plan: Plan, kind: str, title: str, strategies: Sequence[str], total: int | None, evaluations: int | None = None
) -> Followers:
    """Return who follows the runs of ``kind``, of which there are to be ``total``, or so many ``evaluations``."""
    progress = Progress(plan.objective, total, evaluations)
    return Followers(tracker(plan, kind), progress, LiveView(title, progress, strategies, plan.searched))


def tracker(plan: Plan, kind: str) -> Tracker:
    """Return what records runs of ``kind`` under the search's run."""
    settings = plan.settings
    return Tracker(
        uri=plan.tracking_uri,
        problem=settings.problem,
        search=settings.name,
        varied=tuple(dict.fromkeys([*plan.varied, "groups_seed"])) if kind == names.FACTORIAL else plan.varied,
        check_weights=checkpoint.load,
        tags=environment_tags(plan),
        kind=kind,
        folder=journal_folder(plan, kind),
    )


def journal_folder(plan: Plan, kind: str) -> Path:
    """Return where the journal of runs of ``kind`` is kept, beside the search."""
    return plan.folder / names.JOURNALS / kind


def environment_tags(plan: Plan) -> dict[str, str]:
    """Return the versions and the device, for every run."""
    device = torch.device("cuda" if plan.settings.gpus_per_trial else "cpu")
    found = environment(device if torch.cuda.is_available() else torch.device("cpu"))
    found |= {"ray": metadata.version("ray"), "data": data_fingerprint(plan.problem)}
    return {f"tune_mtl.{key}": value for key, value in found.items()}


def data_fingerprint(problem: Problem) -> str:
    """Return what tells the problem's data from others: their content where they are tensors, else kind and size."""
    parts = []
    for split in ("train", "val"):
        data = problem.data(split)
        if data is not None:
            parts.append(checkpoint.fingerprint(data) or f"{type(data).__name__}-{len(data)}")
    return "/".join(parts)
