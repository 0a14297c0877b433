"""`--space paper` is the paper's protocol: what of it belongs to the problem. Settings have the rest."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.core.problem import Problem
from tune_mtl.problems.registry import PROBLEM, load_problem


def as_the_paper(problem: str | Problem, loaded: Problem, given: Mapping[str, Any]) -> tuple[Problem, dict[str, Any]]:
    """Return the problem and the settings of a search that repeats the paper's; what the user has decided stays.

    Args:
        problem: The problem, as the user gave it; an object has been made with its options already.
        loaded: The same, loaded.
        given: Settings of the search.
    """
    settings = dict(given)
    fixed = dict(given.get("fixed") or {})
    decided = {key.removeprefix(PROBLEM) for key in fixed}
    papers = {key: value for key, value in loaded.paper_options.items() if key not in decided}
    if not papers or not isinstance(problem, str):
        return loaded, settings
    settings["fixed"] = {**fixed, **papers}
    return load_problem(problem, settings["fixed"]), settings
