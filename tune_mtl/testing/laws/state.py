"""Laws about what is saved: a trial that is stopped and resumed equals one that was never stopped."""

import copy
import io
from typing import Any

import torch

from tune_mtl.testing.cases import Case
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import LENGTH, Subject, apart, same, set_global_randomness, take, values

_MISSING = 0.4
_SAVE = (
    "Return all that the rule remembers from state_dict, beside super().state_dict(), and put it back in"
    " load_state_dict; list every optimizer in make_optimizers."
)


@law(way_out=_SAVE, case=Case(steps=5), least_steps=2)
def resumes_exactly(subject: Subject, case: Case) -> Broken | None:
    """Saved in the middle of an epoch and loaded into a fresh one, it goes on bit for bit, schedule included."""
    half = case.steps // 2
    runs = [(subject.optimizer, half)] if subject.optimizer else [("adam", half), ("momentum", 1)]
    batches = [case.batch(step, missing=_MISSING) for step in range(case.steps)]
    for optimizer, split in runs:
        how: dict[str, Any] = {"optimizer": optimizer, "schedule": "cosine", "cosine_steps": LENGTH}
        whole = subject.make(case, **how)
        take(whole, batches[:split])
        strange = sorted(set(_strange(whole.state_dict())))
        if strange:
            kinds = "checkpoints hold tensors, numbers, texts, lists and dicts"
            return Broken(f"state_dict holds {strange[0]}; {kinds}", "Keep it as one of these.")
        weights, saved = copy.deepcopy(whole.model.state_dict()), _through_a_file(whole.state_dict())
        set_global_randomness()
        take(whole, batches[split:])
        other = subject.make(case, **how)
        other.model.load_state_dict(weights)
        other.load_state_dict(saved)
        set_global_randomness()
        take(other, batches[split:])
        when = f"saved after {split} of {case.steps} mini-batches with {optimizer} and loaded"
        first, second = values(whole.model), values(other.model)
        if not same(first, second):
            return Broken(f"{when}, it ends with other weights, by up to {apart(first, second)}")
        if (whole.mini_batches, whole.updates, whole.groups) != (other.mini_batches, other.updates, other.groups):
            return Broken(f"{when}, it has counted other mini-batches or updates, or has other groups")
    return None


@law(way_out=_SAVE, case=Case(steps=4), least_steps=2)
def forgets_when_loaded(subject: Subject, case: Case) -> Broken | None:
    """Loading makes a used strategy forget all that it has seen since, and leaves what it was given as it is."""
    strategy = subject.make(case)
    half = case.steps // 2
    take(strategy, [case.batch(step, missing=_MISSING) for step in range(half)])
    weights, saved = copy.deepcopy(strategy.model.state_dict()), copy.deepcopy(strategy.state_dict())
    results = []
    for _ in range(3):  # what the second run does to a state that was not copied, the third starts from
        set_global_randomness()
        take(strategy, [case.batch(step, missing=_MISSING) for step in range(half, case.steps)])
        results.append(values(strategy.model))
        strategy.model.load_state_dict(weights)
        strategy.load_state_dict({**saved, "optimizers": copy.deepcopy(saved["optimizers"])})  # torch's do not copy
    first, second, third = results
    if not same(first, second):
        return Broken(f"the same steps from the same state end elsewhere, by up to {apart(first, second)}")
    if not same(second, third):
        return Broken(
            "what load_state_dict was given is changed by later steps",
            "Copy what is loaded: self.mean = state['mean'].clone().",
        )
    return None


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as a checkpoint gives it back."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def _strange(value: Any) -> list[str]:
    """Return the kinds of what is in a state and cannot be in a checkpoint."""
    if isinstance(value, dict):
        return [kind for pair in value.items() for item in pair for kind in _strange(item)]
    if isinstance(value, list | tuple):
        return [kind for item in value for kind in _strange(item)]
    plain = value is None or isinstance(value, torch.Tensor | int | float | str | bytes | torch.dtype | torch.device)
    return [] if plain else [f"a {type(value).__module__}.{type(value).__qualname__}"]
