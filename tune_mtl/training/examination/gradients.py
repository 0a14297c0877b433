"""Whether what a task loses teaches anything: its gradient at the trunk and at its head."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.task import Task
from tune_mtl.strategies.base import weights_of
from tune_mtl.training.examination.finding import Finding

Loss = Callable[[MultiTaskModel], Tensor]
"""The loss of one task on the batch, from a forward pass of its own."""

_WATCHED = "; a task that is only to be watched gets weight=0"


def frozen(model: MultiTaskModel, tasks: Sequence[Task]) -> Finding | None:
    """Return what is to be said of a network whose trunk does not train; None if it does."""
    heads = [model.heads[task.name] for task in tasks]
    if not weights_of(model.trunk, *heads):
        return Finding(None, "no weight of the network trains.", "Let some have requires_grad=True.")
    if weights_of(model.trunk):
        return None
    why = "is frozen" if any(True for _ in model.trunk.parameters()) else "has no weights"
    way_out = "If that is not meant, give it weights with requires_grad=True."
    return Finding(None, f"the trunk {why}: only heads train, and strategies hardly differ.", way_out, warning=True)


def unreached(model: MultiTaskModel, losses: Mapping[str, Tensor], again: Mapping[str, Loss]) -> list[Finding]:
    """Return the tasks whose loss has no gradient at weights that should train for them.

    A gradient of zero is one: dead units and heads that start at zero are no fault.

    Args:
        model: The network.
        losses: By task, with their graphs.
        again: By task, how to get the loss anew: what a graph does not show is seen in a backward pass.
    """
    found: dict[str, Finding] = {}
    trunkless = []
    for task, loss in losses.items():
        trunk, head = weights_of(model.trunk), weights_of(model.heads[task])
        if not loss.requires_grad:
            found[task] = _without_any(task, trains=bool(trunk or head))
            continue
        reached = reaches(loss)
        if not (_misses(trunk, reached) or _misses(head, reached)):
            continue
        reached = _seen_in_backward(model, again[task])
        without_trunk, without_head = _misses(trunk, reached), _misses(head, reached)
        if without_trunk and (without_head or not head):
            found[task] = _without_any(task, trains=True)
        elif without_head:
            what = "its loss has no gradient at its head, which would never train."
            found[task] = Finding(task, what, f"Compute the loss from this task's own prediction{_WATCHED}.")
        elif without_trunk:
            trunkless.append(task)
    if trunkless and len(trunkless) == len(losses):
        way_out = (
            "Let heads use its output without detach() or no_grad(); to freeze it, use trunk.requires_grad_(False)."
        )
        return [Finding(None, "the trunk gets no gradient from any task, and would never train.", way_out)]
    for task in trunkless:
        what = "its loss has no gradient at the trunk, which would never train for it."
        found[task] = Finding(task, what, f"Let its head use the trunk's output without detach(){_WATCHED}.")
    return [found[task] for task in losses if task in found]


def not_finite_gradients(model: MultiTaskModel, again: Mapping[str, Loss]) -> list[Finding]:
    """Return the tasks whose gradient is not finite though their loss is: one step and all weights are lost."""
    found = []
    for task, loss in again.items():
        gradients = _gradients(model, loss).values()
        if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            what = "its gradient is not finite on the first batch, though its loss is: one step spoils all weights."
            found.append(Finding(task, what, "Look for sqrt, norm, log and division at 0; add a small number there."))
    return found


def finite_together(model: MultiTaskModel, again: Loss) -> bool:
    """Return whether all gradients of one backward pass are finite."""
    return all(bool(torch.isfinite(gradient).all()) for gradient in _gradients(model, again).values())


def reaches(loss: Tensor) -> set[int]:
    """Return the ids of all leaves that the graph of ``loss`` ends at; no gradient is computed."""
    leaves: set[int] = {id(loss)} if loss.grad_fn is None else set()
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.add(id(leaf))
        waiting += [following for following, _ in node.next_functions]
    return leaves


def _without_any(task: str, *, trains: bool) -> Finding:
    if not trains:
        way_out = f"Let its head or the trunk have weights with requires_grad=True{_WATCHED}."
        return Finding(task, "neither its head nor the trunk has a weight that trains.", way_out)
    what = "its loss has no gradient, neither at the trunk nor at its head: nothing would train for it."
    way_out = f"Compute it from the prediction in torch, without detach(), item(), numpy() or no_grad(){_WATCHED}."
    return Finding(task, what, way_out)


def _misses(weights: Sequence[nn.Parameter], reached: set[int]) -> bool:
    return bool(weights) and not any(id(weight) in reached for weight in weights)


def _seen_in_backward(model: MultiTaskModel, again: Loss) -> set[int]:
    """Return the ids of the weights that have a gradient after a backward pass: rules all doubt out."""
    return set(_gradients(model, again))


def _gradients(model: MultiTaskModel, again: Loss) -> dict[int, Tensor]:
    """Return the gradients of one backward pass by the weight's id; the weights' own are put back."""
    kept = {weight: weight.grad for weight in model.parameters()}
    for weight in kept:
        weight.grad = None
    loss = again(model)
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    found = {id(weight): weight.grad for weight in kept if weight.grad is not None}
    for weight, gradient in kept.items():
        weight.grad = gradient
    return found
