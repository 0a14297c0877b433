"""A user's sampler is tried before a search: what it suggests has to be the same again, also after it was saved."""

import copy
import math
import pickle
import random
import warnings
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from search_spaces import Space
from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import is_reference
from tune_mtl.ray_tune.samplers import make_sampler, startup_trials, takes_seed, takes_startup

_MORE = 1
"""Suggestions that are compared, after trials with results."""
_USUAL_STARTUP = 10
"""Trials from which most samplers begin to learn, where they are not told another number."""
_WITHOUT_RESULT = 3
"""Trials besides, of which some diverge or are stopped."""


def rehearse(algorithm: str, space: Space, trials: int, *, must_learn: bool = False) -> list[str]:
    """Ask a user's sampler for some suggestions; returns warnings, a line each.

    Args:
        algorithm: What chooses configs; what is built in is not tried.
        space: What may be chosen.
        trials: How many trials a tuning has.
        must_learn: Whether it has to suggest other configs after other results, as a warm start needs.

    Raises:
        UserError: if it fails, cannot be saved for a resume, or does not learn where it must.
    """
    if not is_reference(algorithm):
        return []
    strategy = max(space.strategies, key=lambda name: len(space.of(name)))
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _rehearsed(algorithm, space, strategy, trials, must_learn)
    finally:
        optuna.logging.set_verbosity(verbosity)


def _rehearsed(algorithm: str, space: Space, strategy: str, trials: int, must_learn: bool) -> list[str]:
    learnt = (startup_trials(algorithm, trials) if takes_startup(algorithm) else None) or _USUAL_STARTUP
    learnt += _WITHOUT_RESULT
    before = (random.getstate(), np.random.get_state())  # noqa: NPY002 - what users draw from
    try:
        study = _study(algorithm, trials, 0)
        asked = _go_on(algorithm, study, space, strategy, learnt)
        kept = _copied(algorithm, study)
        following = _go_on(algorithm, study, space, strategy, _MORE)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        found = []
        if _go_on(algorithm, kept, space, strategy, _MORE) != following:
            found.append(
                f"algorithm '{algorithm}' suggests other configs once it was saved and read again, so that a resumed"
                " search is not exact: everything random has to come from a generator of its own."
            )
        again = _study(algorithm, trials, 0)
        if _go_on(algorithm, again, space, strategy, learnt) != asked:
            way = "seed everything random" if takes_seed(algorithm) else "have it take a seed"
            found.append(
                f"algorithm '{algorithm}' suggests other configs each time although its seed is the same, so that no"
                f" command repeats the search: {way}."
            )
        elif not takes_seed(algorithm):
            found.append(
                f"algorithm '{algorithm}' takes no seed: all tunings get the same suggestions after their first"
                " draws. Have it take a seed."
            )
        if must_learn:
            other = _study(algorithm, trials, 0)
            same = [*asked, *following] == _go_on(algorithm, other, space, strategy, learnt + _MORE, sign=-1)
            if same:
                raise UserError(
                    f"warm_start needs an algorithm that learns: '{algorithm}' suggests the same whatever came out."
                    " Leave one of them out."
                )
        return found
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _study(algorithm: str, trials: int, seed: int) -> optuna.Study:
    return optuna.create_study(sampler=make_sampler(algorithm, seed, startup_trials(algorithm, trials), trials))


def _copied(algorithm: str, study: optuna.Study) -> optuna.Study:
    try:
        kept: optuna.Study = pickle.loads(pickle.dumps(study))
    except Exception as error:
        raise UserError(
            f"algorithm '{algorithm}' cannot be saved, so that no killed search could be resumed"
            f" ({type(error).__name__}: {' '.join(str(error).split())}): keep no open files, threads or lambdas in it,"
            " and define its class at the top of a module."
        ) from error
    return kept


def _go_on(
    algorithm: str, study: optuna.Study, space: Space, strategy: str, count: int, *, sign: float = 1
) -> list[dict[str, Any]]:
    """Return the next suggestions; results are told as a search tells them, diverged and stopped trials too."""
    configs = []
    for _ in range(count):
        try:
            trial = study.ask()
            config = space.suggest(trial, strategy)
            configs.append(copy.deepcopy(config))
            number = trial.number
            value = sign * abs(math.log(float(config["lr"])) + 4 + 0.1 * math.sin(number))
            if number % 6 == 4:
                trial.report(math.nan, 1)
                study.tell(trial, state=TrialState.PRUNED)
            elif number % 6 == 5:
                trial.report(value, 1)
                study.tell(trial, state=TrialState.PRUNED)
            else:
                trial.report(value, 2)
                study.tell(trial, value)
        except UserError:
            raise
        except ImportError as error:
            raise UserError(
                f"algorithm '{algorithm}' needs a package that is not installed: {' '.join(str(error).split())}"
            ) from error
        except Exception as error:
            raise UserError(
                f"algorithm '{algorithm}' fails on this space after {len(study.trials) - 1} trials:"
                f" {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
    return configs
