"""What `tune-mtl check-problem` shows: a line per finding, or that all is ready."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.problems.registry import load_problem
from tune_mtl.terminal.console import console
from tune_mtl.training.config import resolve
from tune_mtl.training.examination.examine import examine
from tune_mtl.training.examination.summary import summary
from tune_mtl.training.references.find import judged

_ANY = {"strategy": "sus", "lr": 1e-3}
"""What a config must have, and no problem is examined by."""


def run_check(name: str, given: Mapping[str, Any]) -> bool:
    """Examine and print; returns whether the problem can be trained.

    Raises:
        UserError: if there is no such problem, or no such config value.
    """
    problem = load_problem(name, given)
    resolve(problem, {**_ANY, **given}, name)
    findings, screen = examine(problem, given), console()
    for finding in findings:
        screen.print(f"{'warning: ' if finding.warning else ''}{finding}", soft_wrap=True)
    ready = all(finding.warning for finding in findings)
    if ready:
        judge = judged(problem, given)
        metric = resolve(judge, {**_ANY, **given}, name).metric
        screen.print(f"ready: {summary(judge, given)}; judged by {metric}.", soft_wrap=True)
    return ready
