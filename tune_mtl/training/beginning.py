"""When a longer run can go on where a shorter one has ended: with the numbers that it would have had by itself."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.training.config import Config, check_same_config
from tune_mtl.training.trainer import Trainer


def why_not(problem: Problem, longer: Config, epochs: int, per_epoch: int) -> str | None:
    """Return what of a run with ``longer`` would differ from one that ends after ``epochs``; None: nothing does.

    Both have the same config, but for their length. Schedules and options that are a share of it, an evaluation that
    only the end of the shorter run asks for, and whatever looks at the clock or at the whole config would differ.

    Args:
        problem: What is learned.
        longer: The config of the longer run.
        epochs: How many the shorter one has; no other limit.
        per_epoch: Steps of an epoch.
    """
    shorter, tasks = as_short(longer, epochs), len(problem.tasks)
    if epochs > longer.epochs:
        return f"it has {longer.epochs} epochs, not {epochs} or more"
    if longer.max_seconds is not None:
        return "the clock ends it"
    lengths = [config.mini_batches(per_epoch, tasks) for config in (shorter, longer)]
    if lengths[0] > lengths[1]:
        return "it ends sooner"
    options = [longer.strategy_options_for(length) for length in lengths]
    if options[0] != options[1]:
        differing = sorted(key for key in options[0] if options[0][key] != options[1][key])
        return f"{', '.join(differing)} is a share of its length"
    for key in ("evaluate_every", "diagnose_every"):
        every = getattr(longer, key)
        if every is not None and epochs % every and shorter != longer:
            return f"{key}={every} does not look at it after {epochs} epochs"
    if "analyse" in vars(problem) or type(problem).analyse is not Problem.analyse:
        return "the problem analyses it by its config"
    return None


def as_short(longer: Config, epochs: int) -> Config:
    """Return the config of a run that has so many epochs, all of them, and is otherwise the same."""
    return longer.model_copy(update={"epochs": epochs, "max_updates": None})


def continue_run(trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Have a fresh trainer go on from the ``state`` of a shorter run, as if it had trained those epochs itself.

    Raises:
        UserError: if that run is not the beginning of this one; the trainer is as it was.
    """
    longer, epochs = trainer.config, int(state["config"]["epochs"])
    check_same_config(state["config"], as_short(longer, epochs).as_dict())
    reason = why_not(trainer.problem, longer, epochs, trainer.steps_per_epoch)
    if reason is None and state["diverged"] is not None:
        reason = "it diverged"
    if reason is None and longer.max_updates is not None and state["strategy"]["updates"] > longer.max_updates:
        reason = "it took more updates"
    if reason is not None:
        raise UserError(f"a run of {epochs} epochs is not the beginning of this one: {reason}.")
    trainer.load_state_dict({**state, "config": longer.as_dict()})
