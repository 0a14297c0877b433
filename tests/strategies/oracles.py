"""SUS, IUS and IO written out in a few lines each, sharing nothing with the library."""

import torch


class Moments:
    """One optimizer's memory, by parameter: the textbook rules."""

    def __init__(self, kind: str, lr: float) -> None:
        self.kind, self.lr, self.memory = kind, lr, {}

    def step(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        with torch.no_grad():
            if self.kind == "sgd":
                parameter -= self.lr * gradient
            elif self.kind == "momentum":
                velocity = self.memory.get(parameter)
                velocity = gradient.clone() if velocity is None else 0.9 * velocity + gradient
                self.memory[parameter] = velocity
                parameter -= self.lr * velocity
            else:
                t, m, v = self.memory.get(parameter, (0, torch.zeros_like(gradient), torch.zeros_like(gradient)))
                t, m, v = t + 1, 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
                self.memory[parameter] = (t, m, v)
                parameter -= self.lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)


def oracle_step(model, tasks, groups, memories, batch) -> dict[str, float]:
    """One mini-batch: for each group, forward and backward at the weights the group before it left."""
    seen = {}
    for group, memory in zip(groups, memories, strict=True):
        losses = {}
        for task in tasks:
            if task.name not in group:
                continue
            rows = torch.ones(len(batch.inputs), dtype=torch.bool)
            if batch.present is not None:
                rows = batch.present[task.name]
            if not rows.any():
                continue
            prediction = model.heads[task.name](model.trunk(batch.inputs))
            losses[task.name] = task.loss(prediction[rows], batch.targets[task.name][rows])
        if not losses:
            continue
        parameters = [*model.trunk.parameters()]
        for name in losses:
            parameters += model.heads[name].parameters()
        weighted = sum(task.weight * losses[task.name] for task in tasks if task.name in losses)
        for parameter, gradient in zip(parameters, torch.autograd.grad(weighted, parameters), strict=True):
            memory.step(parameter, gradient)
        seen |= {name: loss.item() for name, loss in losses.items()}
    return seen


def oracle_groups_and_memories(strategy: str, tasks, groups, kind: str, lr: float):
    if strategy == "sus":
        return [[task.name for task in tasks]], [Moments(kind, lr)]
    if strategy == "ius":
        return groups, [Moments(kind, lr)] * len(groups)
    return groups, [Moments(kind, lr) for _ in groups]


def labelled_losses(model, tasks, batch, z) -> dict[str, torch.Tensor]:
    """Each task's weighted loss on its labelled rows, from the trunk's output ``z``."""
    found = {}
    for task in tasks:
        rows = torch.ones(len(z), dtype=torch.bool) if batch.present is None else batch.present[task.name]
        if rows.any():
            prediction = model.heads[task.name](z)[rows]
            found[task.name] = task.weight * task.loss(prediction, batch.targets[task.name][rows])
    return found
