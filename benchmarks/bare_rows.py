"""Bare loops of rules that work on the rows of the Jacobian, all in one matrix."""

from collections.abc import Callable, Sequence

import torch
from bare_parts import LossFunctions, Step, adam, terms
from torch import Tensor

from tune_mtl import Batch, MultiTaskModel


def averaging(seen: Callable[[Tensor], Tensor], shares: Callable[[Tensor, int], Tensor]) -> Callable[..., Step]:
    """One step on averaged gradients of what is ``seen`` of the losses, all rows in one matrix."""

    def make(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
        trunk = list(model.trunk.parameters())
        heads = [list(model.heads[task].parameters()) for task in losses]
        sizes = [weight.numel() for weight in trunk]
        rows = torch.zeros(len(losses), sum(sizes))
        averages = torch.zeros_like(rows)
        optimizer, steps = adam(model), 0

        def step(batch: Batch) -> None:
            nonlocal steps
            steps += 1
            found = terms(model, losses, list(losses), model.trunk(batch.inputs), batch)
            for row, loss, head in zip(rows, found, heads, strict=True):
                gradients = torch.autograd.grad(seen(loss), [*trunk, *head], retain_graph=True)
                torch.cat([gradient.flatten() for gradient in gradients[: len(trunk)]], out=row)
                for weight, gradient in zip(head, gradients[len(trunk) :], strict=True):
                    weight.grad = gradient
            averages.lerp_(rows, 0.5)
            direction = shares(averages, steps) @ averages
            for weight, gradient in zip(trunk, direction.split(sizes), strict=True):
                weight.grad = gradient.view_as(weight)
            optimizer.step()

        return step

    return make


def halving(weigh: Callable[[Tensor], Tensor]) -> Callable[..., Step]:
    """One step with weights found from the products of two halves' gradients."""

    def make(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
        trunk = list(model.trunk.parameters())
        heads = [list(model.heads[task].parameters()) for task in losses]
        sizes = [weight.numel() for weight in trunk]
        rows = torch.zeros(2, len(losses), sum(sizes))
        optimizer = adam(model)

        def step(batch: Batch) -> None:
            features = model.trunk(batch.inputs)
            optimizer.zero_grad()
            for place, (task, loss) in enumerate(losses.items()):
                outputs, targets = model.heads[task](features), batch.targets[task]
                middle = len(targets) // 2
                for half, part in enumerate((slice(middle), slice(middle, None))):
                    weights = [*trunk, *heads[place]]
                    gradients = torch.autograd.grad(loss(outputs[part], targets[part]), weights, retain_graph=True)
                    torch.cat([gradient.flatten() for gradient in gradients[: len(trunk)]], out=rows[half, place])
                    for weight, gradient in zip(heads[place], gradients[len(trunk) :], strict=True):
                        weight.grad = gradient / 2 if weight.grad is None else weight.grad + gradient / 2
            direction = weigh(rows[0] @ rows[1].T) @ rows.mean(dim=0)
            for weight, gradient in zip(trunk, direction.split(sizes), strict=True):
                weight.grad = gradient.view_as(weight)
            optimizer.step()

        return step

    return make


def on_simplex(point: Tensor) -> Tensor:
    ordered = point.sort(descending=True).values
    levels = (ordered.cumsum(0) - 1) / torch.arange(1, len(point) + 1)
    return (point - levels.max()).clamp(min=0)


def doubly_sampled() -> Callable[[Tensor], Tensor]:
    """MoDo's weights."""
    held = None

    def weigh(products: Tensor) -> Tensor:
        nonlocal held
        before = torch.full((len(products),), 1 / len(products)) if held is None else held
        held = on_simplex(before - 0.1 * (products @ before + 0.1 * before))
        return held

    return weigh


def direction_oriented() -> Callable[[Tensor], Tensor]:
    """SDMGrad's."""
    held = None

    def weigh(products: Tensor) -> Tensor:
        nonlocal held
        held = torch.full((len(products),), 1 / len(products)) if held is None else held
        scaled = products / (products.diagonal().clamp(min=0).sqrt().mean() ** 2 + 1e-8)
        velocity = torch.zeros(len(products))
        for _ in range(20):
            velocity = 0.5 * velocity + scaled @ (held + 0.3 / len(products))
            held = on_simplex(held - 10.0 * velocity)
        return (held + 0.3 / len(products)) / 1.3

    return weigh


def evened(rows: Tensor, _: int) -> Tensor:
    """DB-MTL's shares."""
    lengths = rows.norm(dim=1)
    return lengths.max() / (lengths + 1e-8)


def moving_shares() -> Callable[[Tensor, int], Tensor]:
    """MoCo's."""
    held = None

    def move(rows: Tensor, steps: int) -> Tensor:
        nonlocal held
        before = torch.full((len(rows),), 1 / len(rows)) if held is None else held
        held = on_simplex(before - 0.1 / steps**0.5 * (rows @ (before @ rows)))
        return held

    return move
