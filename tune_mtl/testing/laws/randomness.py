"""Laws about chance: all of it comes from the strategy's own generator, and the start is everyone's."""

import random
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tune_mtl.core.seeds import global_state
from tune_mtl.testing.cases import Case
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, apart, same, set_global_randomness, take, values

_OWN = "Draw from self.recipe.generator: torch.rand(n, generator=self.recipe.generator)."
_ITSELF = f"{_OWN} Keep what changes in self, not in the class or the module, and look at no clock."


@law(way_out=_OWN)
def draws_from_its_own_generator(subject: Subject, case: Case) -> Broken | None:
    """What it draws follows the seed of a trial; global random states neither matter to its steps nor are changed."""
    results = []
    for noise in (1, 2):
        strategy = subject.make(case)
        set_global_randomness(noise)
        before = _states()
        subject.trained(case, strategy, missing=0.2)
        changed = [name for name, state in _states().items() if state != before[name]]
        if changed:
            return Broken(f"a step draws from the global random state of {' and '.join(changed)}")
        results.append(values(strategy.model))
    if not same(*results):
        return Broken(f"the same seed gives other weights the second time, by up to {apart(*results)}", _ITSELF)
    return _same_for_all_seeds(subject, case)


def _same_for_all_seeds(subject: Subject, case: Case) -> Broken | None:
    """Return how what is drawn from generators fails to follow the seed of a trial."""
    batches, drawn = [case.batch(step) for step in range(case.steps)], []
    for seed in (case.seed, case.seed + 1):
        strategy = subject.make(replace(case, seed=seed), network=case.network())
        with _Draws() as draws:
            take(strategy, batches)
        drawn.append(draws.seen)
    if drawn[0] and same(*drawn):
        return Broken("what it draws is the same whatever the seed of a trial")
    return None


class _Draws(TorchDispatchMode):
    """Keeps what is drawn from generators that are named."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[torch.Tensor] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance((kwargs or {}).get("generator"), torch.Generator):
            self.seen += [made.detach().clone() for made in tree_leaves(result) if isinstance(made, torch.Tensor)]
        return result


@law(way_out=f"Leave the network as it is in setup. {_OWN}", case=Case(steps=1))
def starts_where_all_start(subject: Subject, case: Case) -> Broken | None:
    """Before its first step the network is the one that every strategy gets, and set-up has drawn nothing global."""
    network = case.network()
    given = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    trained = {name for name, weight in network.named_parameters() if weight.requires_grad}
    set_global_randomness()
    before = _states()
    strategy = subject.make(case, network=network)
    changed = [name for name, state in _states().items() if state != before[name]]
    if changed:
        return Broken(f"set-up draws from the global random state of {' and '.join(changed)}", _OWN)
    for name, tensor in network.state_dict().items():
        if not torch.equal(tensor, given[name]):
            return Broken(f"set-up changes '{name}' of the network")
    if trained != {name for name, weight in network.named_parameters() if weight.requires_grad}:
        return Broken("set-up changes which weights are trained")
    for name, weight in strategy.model.named_parameters():
        if not any(weight.shape == own.shape and torch.equal(weight, own) for own in given.values()):
            return Broken(f"its own network starts with a weight '{name}' that is not one of the network given")
    return None


def _states() -> dict[str, Any]:
    """Return the global random states by whose they are, to be compared."""
    states = global_state(cuda=False)
    name, keys, *rest = states["numpy"]
    return {
        "torch": states["torch"].numpy().tobytes(),
        "numpy": (name, keys.numpy().tobytes(), *rest),
        "Python": random.getstate(),
    }
