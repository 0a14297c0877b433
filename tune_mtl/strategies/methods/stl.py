"""Single-task learning: what sharing is measured against."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from tune_mtl.core.model import Heads, MultiTaskModel
from tune_mtl.core.nested import Nested
from tune_mtl.strategies.base import Labelled, Losses, Strategy, weights_of
from tune_mtl.strategies.info import NoOptions, StrategyInfo


class SingleTaskNetworks(MultiTaskModel):
    """One copy of the trunk per task, behind the interface of a multi-task model: ``heads[k](trunk[k](inputs))``.

    Trunk and head are copied together: a head that uses the trunk's weights uses its own trunk's.
    """

    def __init__(self, model: MultiTaskModel, tasks: Sequence[str]) -> None:
        copies = {task: copy.deepcopy((model.trunk, model.heads[task])) for task in tasks}
        super().__init__(
            Heads({task: trunk for task, (trunk, _) in copies.items()}),
            {task: head for task, (_, head) in copies.items()},
        )

    def forward(self, inputs: Nested, tasks: Iterable[str] | None = None) -> dict[str, Nested]:
        """Return predictions by task, each from its own network."""
        trunks = self.trunk
        assert isinstance(trunks, nn.ModuleDict)
        return {task: self.heads[task](trunks[task](inputs)) for task in (trunks if tasks is None else tasks)}


class SingleTask(Strategy[NoOptions]):
    """STL: every task has a network of its own, all from the same initial weights and trained alike.

    w_k <- w_k - lr * m_k(c_k g_k(w_k)), for each task k.
    """

    info = StrategyInfo(
        name="stl",
        title="Single-task reference",
        rule="one network per task, each trained on its own loss",
        family="baselines",
        shares_trunk=False,
        forwards="N",
        backwards="N",
        updates="N",
        states="N",
        memory="a network per task",
        fp16=True,
        reference="the reference of Delta-m",
    )

    @classmethod
    def own_model(cls, model: MultiTaskModel, tasks: Sequence[str]) -> MultiTaskModel:
        """Return copies of the model given, which stays as it is."""
        return SingleTaskNetworks(model, tasks)

    def make_optimizers(self) -> list[Optimizer]:
        """Make one per task, over its own network."""
        trunks = self.model.trunk
        assert isinstance(trunks, nn.ModuleDict)
        return [self.recipe.optimizer(weights_of(trunks[task], self.model.heads[task])) for task in self.tasks]

    def learn(self, batch: Labelled) -> Losses:
        """Take one update of each network."""
        losses: Losses = {}
        for task, optimizer in zip(self.tasks, self.optimizers, strict=True):
            losses |= self.update(optimizer, [task], batch)
        return losses

    @property
    def trunks(self) -> list[nn.Module]:
        """Each task's own."""
        return list(self.model.trunk.children())

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the networks' weights, which the model given to the strategy does not hold."""
        return super().state_dict() | {"networks": self.model.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``, networks included."""
        super().load_state_dict(state)
        self.model.load_state_dict(state["networks"])
