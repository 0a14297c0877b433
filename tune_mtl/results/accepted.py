"""What some options of a search may be: each in a sentence that stands in the refusal of anything else."""

from typing import Literal

from tune_mtl.core.scalarisation import SCALARISATIONS

ALGORITHMS = ("optuna", "random", "grid")
"""Who chooses configs, of those that are built in."""

MOST_REPLICATES = 100

CONTROLLED = 3
"""In so many tunings controls are trained, where nobody says."""


def accepted_replicates(value: object) -> int | Literal["auto"]:
    """Return a number of replicates: one sentence says what it may be, whatever was given instead."""
    if value == "auto":
        return "auto"
    if isinstance(value, int) and 1 <= value <= MOST_REPLICATES:
        return value
    raise ValueError(f"must be 'auto' or a number from 1 to {MOST_REPLICATES}")


def accepted_controls(value: object) -> int | Literal["auto", "all"]:
    """Return in how many tunings controls are trained: all of them, or in some those that matter."""
    if value in ("auto", "all"):
        return value
    if type(value) is int and 0 <= value <= MOST_REPLICATES:
        return value
    raise ValueError(f"must be 'auto', 'all' or a number from 0 to {MOST_REPLICATES}")


def controlled_tunings(controls: int | str, replicates: int) -> int:
    """Return in how many of the replicates controls are trained."""
    if controls == "all":
        return replicates
    return min(CONTROLLED if isinstance(controls, str) else controls, replicates)


def accepted_algorithm(value: object) -> str:
    """Return who chooses configs: one of three names, or where a user's sampler is found."""
    if isinstance(value, str) and (value in ALGORITHMS or ":" in value):
        return value
    raise ValueError("should be 'optuna', 'random' or 'grid', or a sampler of Optuna's as package.module:Class")


def accepted_objective(value: object) -> str:
    """Return how tasks become one number; a search for a whole front has none, which early stopping would need."""
    if value == "pareto":
        raise ValueError(
            "is not offered: early stopping and 'best' need one number. Search with worst, weighted or delta-m; the"
            " report shows the front over tasks of every search"
        )
    if value in ("mean", *SCALARISATIONS):
        return str(value)
    raise ValueError(f"should be 'mean', {', '.join(map(repr, SCALARISATIONS))}")
