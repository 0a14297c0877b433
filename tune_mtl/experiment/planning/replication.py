"""How often strategies are tuned, and with how many trials, where nobody says."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.core.problem import Problem
from tune_mtl.experiment.planning.searched import base_space
from tune_mtl.results.settings import Settings

DEFAULT_REPLICATES, TRIALS_PER_TUNING = 8, 4
"""Tunings of each strategy, and trials of each: what docs/statistics.md shows to decide most for its cost."""
THAW_REPLICATES, THAW_TRIALS = 5, 8
"""Likewise where trials pause, which makes more trials of a tuning cheap, and its choice better."""
FEWEST_REPLICATES = 3
"""With fewer, hardly any difference could be told; a small search compares configs instead."""
TRIALS_OF_ONE_TUNING = 8
"""Where each strategy is tuned only once."""
FIRST_REPLICATES, MOST_REPLICATES = 4, 16
"""With ``replicates="auto"``: how many before the first look, and at most."""


def first_replicates(settings: Settings) -> int:
    """Return with how many replicates a search begins."""
    if settings.replicates == "auto":
        return min(FIRST_REPLICATES, settings.max_replicates or MOST_REPLICATES)
    return settings.replicates


def looks(settings: Settings) -> tuple[int, ...]:
    """Return after how many replicates a search that grows by itself is judged; empty for others."""
    if settings.replicates != "auto":
        return ()
    return looks_between(first_replicates(settings), settings.max_replicates or MOST_REPLICATES)


def looks_between(first: int, most: int) -> tuple[int, ...]:
    """Return the numbers of replicates at which is looked: each a quarter more than the one before, at least one more.

    A clear difference ends a search early, an unclear one is not looked at too often: every look costs power.
    """
    found = [first]
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // 4)))
    return tuple(found)


def default_samples(strategies: int, replicates: int, scheduler: str) -> int:
    """Return how many trials a guided search has in all, if nobody says."""
    return strategies * (TRIALS_OF_ONE_TUNING if replicates == 1 else _usual_design(scheduler)[1] * replicates)


def default_replicates(problem: Problem, given: Mapping[str, Any]) -> int:
    """Return how often each strategy is tuned, if nobody says: what is asked for decides how often it can be.

    A grid is tuned once on each of its seeds. A guided search has eight tunings of each strategy, five where trials
    pause; with ``samples`` given, as many as get four trials each, or eight; one where those are fewer than three,
    where strategies share a budget (``balance="none"``), or where they begin with what an earlier search knows.
    """
    space = base_space(problem, given)
    if given.get("algorithm") == "grid":
        return len(given.get("seeds") or space.seeds)
    if given.get("balance") == "none" or given.get("warm_start") is not None:
        return 1
    most, trials = _usual_design(given.get("scheduler"))
    samples = given.get("samples")
    if not isinstance(samples, int):
        return most
    found = samples // (trials * len(given.get("strategies") or space.strategies))
    return min(found, most) if found >= FEWEST_REPLICATES else 1


def _usual_design(scheduler: str | None) -> tuple[int, int]:
    """Return how many tunings of each strategy a scheduler is used with, and how many trials of each."""
    return (THAW_REPLICATES, THAW_TRIALS) if scheduler == "thaw" else (DEFAULT_REPLICATES, TRIALS_PER_TUNING)
