"""Who chooses configs: TPE, pure chance, or any sampler of Optuna's that users bring."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import optuna
from optuna.samplers import BaseSampler, BruteForceSampler, GridSampler, RandomSampler, TPESampler

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import has_module, is_reference, load, reference_to

_SEEDS, _STARTUPS, _TRIALS = ("seed",), ("n_startup_trials", "startup"), ("trials",)

_given: dict[str, Callable[..., Any]] = {}
"""The classes and functions that were given as such, by reference: nobody else may be able to import them."""


def startup_trials(algorithm: str, trials: int) -> int | None:
    """Return how many trials of a tuning are drawn before anything was learnt; None: all of them.

    A sampler that users bring is taken to learn as TPE does.
    """
    return None if algorithm == "random" else min(10, max(4, trials // 4))


def make_sampler(algorithm: str, seed: int, startup: int | None, trials: int | None = None) -> BaseSampler:
    """Return TPE with so many ``startup`` trials, pure chance, or a user's sampler.

    Args:
        algorithm: ``optuna``, ``random``, ``grid``, or where a user's is found, ``package.module:attribute``.
        seed: Of this sampler alone.
        startup: How many first trials do not depend on results.
        trials: How many trials the tuning has, as far as that is decided.

    Raises:
        UserError: if a user's cannot be made.
    """
    if is_reference(algorithm):
        return _made(algorithm, sampler_class(algorithm), seed, startup, trials)
    if algorithm == "random" or startup is None:
        return RandomSampler(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True, group=True, constant_liar=True)


def admit_sampler(asked: Any) -> str:
    """Return how settings name what chooses configs; what is given as an object is known in this process from then on.

    Raises:
        UserError: if it is neither a name nor a class or function.
    """
    if isinstance(asked, str):
        return asked
    if isinstance(asked, BaseSampler) or not callable(asked):
        raise UserError(
            f"algorithm={type(asked).__name__} object: every tuning needs a sampler of its own. Give the class, or a"
            " function that takes a seed and returns one."
        )
    reference = reference_to(asked)
    _given[reference] = asked
    return reference


def sampler_class(reference: str) -> Callable[..., Any]:
    """Return the class or function that makes a user's sampler.

    Raises:
        UserError: if there is none of that name, or what there is cannot be one.
    """
    if not has_module(reference) and reference not in _given:
        raise UserError(
            f"algorithm '{reference}' was given as an object, which no other process can import: go on in the notebook"
            " or program that defines it, or put it into a module of its own and search again."
        )
    found = _given.get(reference) or load(reference)
    if isinstance(found, type) and issubclass(found, GridSampler | BruteForceSampler):
        raise UserError(f"algorithm '{reference}' tries a whole grid: use --algorithm grid.")
    if not callable(found) or (isinstance(found, type) and not issubclass(found, BaseSampler)):
        what = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        raise UserError(
            f"algorithm '{reference}' is no sampler of Optuna's but {what}: it must be a subclass of"
            " optuna.samplers.BaseSampler, or a function that takes a seed and returns one; a searcher of another"
            " library can be asked from within such a class."
        )
    return found


def takes_seed(reference: str) -> bool:
    """Return whether what makes a user's sampler takes a seed."""
    return bool(_arguments(sampler_class(reference), 0, None, None))


def takes_startup(reference: str) -> bool:
    """Return whether what makes a user's sampler is told how many first trials do not depend on results."""
    return bool(_arguments(sampler_class(reference), None, 1, None))


def _arguments(make: Callable[..., Any], seed: int | None, startup: int | None, trials: int | None) -> dict[str, Any]:
    """Return what ``make`` is called with: of what it takes by name, what is known."""
    known = dict.fromkeys(_SEEDS, seed) | dict.fromkeys(_STARTUPS, startup) | dict.fromkeys(_TRIALS, trials)
    try:
        parameters = inspect.signature(make).parameters
    except ValueError:  # of what is written in C nobody may know
        return {}
    return {name: value for name, value in known.items() if name in parameters and value is not None}


def _made(reference: str, make: Callable[..., Any], seed: int, startup: int | None, trials: int | None) -> BaseSampler:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make(**_arguments(make, seed, startup, trials))
    except ImportError as error:
        raise UserError(f"algorithm '{reference}' needs a package that is not installed: {_line(error)}") from error
    except Exception as error:
        raise UserError(
            f"algorithm '{reference}' could not be made: {type(error).__name__}: {_line(error)}. It is given seed,"
            " startup (or n_startup_trials) and trials, those of them that it takes; a function can give it the rest."
        ) from error
    if not isinstance(made, BaseSampler):
        raise UserError(
            f"algorithm '{reference}' gives a {type(made).__name__}, no sampler of Optuna's (a subclass of"
            " optuna.samplers.BaseSampler)."
        )
    if isinstance(made, GridSampler | BruteForceSampler):
        raise UserError(f"algorithm '{reference}' tries a whole grid: use --algorithm grid.")
    return made


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
