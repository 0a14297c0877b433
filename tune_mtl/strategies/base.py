"""What all strategies share: losses over labelled rows, one update, state."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.nested import Nested, map_tensors, rows_of, tensors
from tune_mtl.core.options import Options
from tune_mtl.core.task import Task
from tune_mtl.core.torch_compat import BatchNorm, allow_several_backward_passes
from tune_mtl.strategies.info import StrategyInfo, default_name
from tune_mtl.strategies.labels import Labelled, Losses, StepLosses, added
from tune_mtl.strategies.loss_scale import LossScale
from tune_mtl.strategies.passes import Passes, SharedPass
from tune_mtl.strategies.recipe import Recipe
from tune_mtl.strategies.weights import Weights, weights_in, weights_of

__all__ = ["Labelled", "Losses", "OptionsT", "SharedPass", "StepLosses", "Strategy", "weights_of"]

OptionsT = TypeVar("OptionsT", bound=Options)


class Strategy(ABC, Generic[OptionsT]):
    """Turns mini-batches into updates of ``model``.

    A strategy is a record, ``info``, and a rule, :meth:`learn`. One that holds values of its own makes them in
    :meth:`setup`; one that needs other optimizers than one over everything says so in :meth:`make_optimizers`.

    Attributes:
        info: Its record.
        model: What is trained and predicts; the model given, unless the strategy needs a network of its own (`stl`).
        tasks: By name, in the problem's order.
        groups: The tasks that step together, in the order of their steps.
        options: Its own options.
        recipe: How each update is taken.
        passes: How a step runs trunk and heads.
        weights: The factor of each task's loss in training.
        optimizers: Every optimizer that changes weights.
        mini_batches: How many have been seen; those that one update was gathered from count as one.
        updates: How many steps they gave.
    """

    info: ClassVar[StrategyInfo]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        info = cls.__dict__.get("info")
        if isinstance(info, StrategyInfo) and not info.name:
            cls.info = replace(info, name=default_name(cls.__name__))

    def __init__(
        self,
        model: MultiTaskModel,
        tasks: Sequence[Task],
        groups: list[list[str]],
        options: OptionsT,
        recipe: Recipe,
    ) -> None:
        self.model = self.own_model(model, [task.name for task in tasks])
        self.tasks = {task.name: task for task in tasks}
        self.groups = groups
        self.options = options
        self.recipe = recipe
        self.passes = Passes(again=recipe.checkpoint_trunk)
        self.mini_batches = 0
        self.updates = 0
        self.weights = {task.name: task.weight for task in tasks}
        self._known = Weights()
        self._all_places: Tensor | None = None
        self.setup()
        self.optimizers: list[Optimizer] = self.make_optimizers()
        half = recipe.autocast is torch.float16
        self._loss_scales = [LossScale() for _ in self.optimizers] if half else []
        self._base_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    @classmethod
    def own_model(cls, model: MultiTaskModel, tasks: Sequence[str]) -> MultiTaskModel:  # noqa: ARG003
        """Return the network that this strategy trains, made from a fresh one: by default the very same."""
        return model

    def setup(self) -> None:
        """Make what the strategy itself holds; called once, when all but the optimizers is there.

        Raises:
            UserError: if options, tasks and model do not fit together.
        """

    def make_optimizers(self) -> list[Optimizer]:
        """Make the optimizers, over the weights each may change: by default one, over everything."""
        return [self.recipe.optimizer(self.trainable(self.tasks))]

    @abstractmethod
    def learn(self, batch: Labelled) -> Losses:
        """Take all updates for one mini-batch: the rule.

        Returns:
            Each task's detached loss, as seen at its own update.
        """

    def step(
        self,
        inputs: Nested,
        targets: Mapping[str, Nested],
        present: Mapping[str, Tensor] | None = None,
        *,
        parts: int = 1,
    ) -> StepLosses:
        """Take all updates for one mini-batch.

        Args:
            inputs: What the model takes; tensors on the model's device.
            targets: A target for each task.
            present: Bool masks of the labelled rows, by task (a task not named: all). Masks on the CPU cost no wait.
            parts: Into how many mini-batches the batch is cut, of which the network holds one at a time. The updates
                are those on the whole batch; a task's loss is the mean over all its labelled rows.

        Returns:
            The detached, unweighted loss of each task with labels, as seen at its own update: a dict, whose ``counts``
            say over how many rows each is the mean.
        """
        if self.recipe.schedule is not None:
            self._set_learning_rate(self.recipe.schedule(self.mini_batches))
        batch = Labelled.of(self.tasks, inputs, targets, present, parts)
        with self.passes.of(self.trunks, self.model.heads.values(), batch.bounds):
            losses = self.learn(batch)
        self._check_learnt(losses, batch)
        self.mini_batches += 1
        return StepLosses(losses, batch.counts())

    def _check_learnt(self, losses: Losses, batch: Labelled) -> None:
        """Refuse what a rule must not return; nothing here looks at a value, so that no device is waited for.

        Raises:
            UserError: unless it is a detached scalar for each task with labels.
        """
        said = f"strategy '{self.info.name}': learn must return the detached loss of each task with labels"
        if not isinstance(losses, dict) or losses.keys() != batch.rows.keys():
            got = ", ".join(map(str, losses)) if isinstance(losses, dict) else f"a {type(losses).__name__}"
            raise UserError(f"{said}, {', '.join(batch.rows) or 'none here'}; got {got or 'none'}.")
        for task, loss in losses.items():
            if not isinstance(loss, Tensor) or loss.ndim or loss.requires_grad:
                kind = f"a {type(loss).__name__}"
                if isinstance(loss, Tensor):
                    kind = f"one of shape {tuple(loss.shape)}" if loss.ndim else "one with a gradient: .detach() it"
                raise UserError(f"{said}, a tensor with one number; of task '{task}' it is {kind}.")

    def predict(self, inputs: Nested) -> dict[str, Nested]:
        """Return the predictions for all tasks, as evaluation uses them."""
        return self.forward(inputs, self.tasks)

    def forward(self, inputs: Nested, tasks: Iterable[str]) -> dict[str, Nested]:
        """Return the model's predictions, computed in the recipe's precision and given as float32 or wider."""
        if self.recipe.autocast is None:
            return self.model(inputs, tasks)  # type: ignore[no-any-return]
        with self._lower_precision():
            predictions = self.model(inputs, tasks)
        return map_tensors(_widened, predictions)  # type: ignore[no-any-return]

    def _lower_precision(self) -> torch.autocast:
        device = next(self.model.parameters()).device.type
        return torch.autocast(device, dtype=self.recipe.autocast, enabled=self.recipe.autocast is not None)

    def losses(self, tasks: Iterable[str], batch: Labelled) -> Losses:
        """Return the differentiable, unweighted losses of those of ``tasks`` that have labels here."""
        labelled = [task for task in tasks if task in batch.rows]
        if not labelled:
            return {}
        return self._losses_of(self.forward(batch.inputs, labelled), batch)

    def each_loss(self, batch: Labelled) -> Iterator[tuple[str, Tensor]]:
        """Yield the differentiable, unweighted loss of each labelled task, in the tasks' order.

        Until the next one is asked for, any number of backward passes may follow.
        """
        yield from self.losses(self.tasks, batch).items()

    @torch.no_grad()
    def look(self, batch: Labelled) -> Losses:
        """Return all labelled tasks' losses as they are now; nothing learns from it, BatchNorm's averages included."""
        norms = [m for m in self.model.modules() if isinstance(m, BatchNorm) and m.track_running_stats]
        for norm in norms:
            norm.track_running_stats = not self.model.training
        try:
            return self.losses(self.tasks, batch)
        finally:
            for norm in norms:
                norm.track_running_stats = True

    def shared_pass(self, batch: Labelled) -> SharedPass:
        """Take one forward pass of all labelled tasks, cut between trunk and heads.

        Raises:
            UserError: if the trunk's output holds no tensors that could be told apart, or a head works in place on it.
        """
        if not batch.rows:
            return SharedPass([], [], {})
        cut: dict[int, tuple[Tensor, Tensor]] = {}

        def leaf(tensor: Tensor) -> Tensor:
            if not tensor.requires_grad:
                return tensor
            return cut.setdefault(id(tensor), (tensor, tensor.detach().requires_grad_()))[1]

        with self._lower_precision():
            features = self.model.trunk(batch.inputs)
            if next(tensors(features), None) is None:
                kind = type(features).__name__
                raise UserError(
                    f"the trunk returns a {kind}: '{self.info.name}' needs tensors, or tuples or dicts of them."
                )
            features = map_tensors(leaf, features)
            predictions = {task: self._prediction(task, features) for task in batch.rows}
        predictions = map_tensors(_widened, predictions)
        outputs, leaves = [output for output, _ in cut.values()], [made for _, made in cut.values()]
        return SharedPass(outputs, leaves, self._losses_of(predictions, batch), predictions)

    def _prediction(self, task: str, features: Nested) -> Nested:
        try:
            return self.model.heads[task](features)
        except RuntimeError as error:
            if "leaf" in str(error) and "in-place" in str(error):
                raise UserError(
                    f"the head of task '{task}' changes the trunk's output in place: '{self.info.name}' takes gradients"
                    " there. Use inplace=False."
                ) from error
            raise

    def _losses_of(self, predictions: Mapping[str, Nested], batch: Labelled) -> Losses:
        if not batch.parts:
            return {
                task: self.tasks[task].loss_on(prediction, batch.targets[task], batch.rows[task])
                for task, prediction in predictions.items()
            }
        losses: Losses = {}
        for (start, end), part, shares in zip(batch.bounds, batch.parts, batch.shares(), strict=True):
            here = {task: rows_of(predictions[task], start, end) for task in predictions if task in part.rows}
            losses = added(losses, self._losses_of(here, part), shares)
        return {task: losses[task] for task in predictions}

    def update(self, optimizer: Optimizer, group: Iterable[str], batch: Labelled) -> Losses:
        """Step ``optimizer`` on the weighted sum of the group's losses, unless none of its tasks has labels."""
        if batch.parts:
            return self._update_in_parts(optimizer, list(group), batch)
        losses = self.losses(group, batch)
        self.descend(optimizer, self.total(losses))
        return self.detached(losses)

    def _update_in_parts(self, optimizer: Optimizer, group: list[str], batch: Labelled) -> Losses:
        """Go backward through one part of the batch at a time: their gradients add up to that of the sum."""
        losses: Losses = {}
        stepping = False
        with self.passes.undivided():
            for part, shares in zip(batch.parts, batch.shares(), strict=True):
                own = added({}, self.losses(group, part), shares)
                total = self.total(own)
                if total.requires_grad:
                    if not stepping:
                        optimizer.zero_grad()
                    stepping = True
                    self.loss_scaled(optimizer, total).backward()  # type: ignore[no-untyped-call]
                losses = added(losses, self.detached(own))
        if stepping:
            self.apply(optimizer)
        return {task: losses[task] for task in group if task in losses}

    def descend(self, optimizer: Optimizer, objective: Tensor) -> None:
        """Step ``optimizer`` on the gradient of ``objective``, unless that wants none: where no task has labels."""
        if objective.requires_grad:
            optimizer.zero_grad()
            self.loss_scaled(optimizer, objective).backward()  # type: ignore[no-untyped-call]
            self.apply(optimizer)

    @staticmethod
    def detached(losses: Losses) -> Losses:
        """Return losses without their graphs, as a rule returns them."""
        return {task: loss.detach() for task, loss in losses.items()}

    def taking_part(self, losses: Losses) -> Losses:
        """Return the losses of the tasks that take part, as they are: those with a gradient and a weight above 0."""
        return {task: loss for task, loss in losses.items() if loss.requires_grad and self.weights[task] > 0}

    def rows(self, losses: Losses) -> Losses:
        """Return the weighted losses of the tasks that take part."""
        return {task: self.weighted(task, loss) for task, loss in self.taking_part(losses).items()}

    def positions(self, chosen: Iterable[str]) -> Tensor:
        """Return where these tasks stand in the problem's order, as indices on the model's device."""
        device, chosen = next(self.model.parameters()).device, list(chosen)
        if chosen == [*self.tasks]:  # as in most steps
            if self._all_places is None or self._all_places.device != device:
                self._all_places = torch.arange(len(chosen), device=device)
            return self._all_places
        places = {task: place for place, task in enumerate(self.tasks)}
        return torch.tensor([places[task] for task in chosen]).to(device, non_blocking=True)

    def weighted(self, task: str, loss: Tensor) -> Tensor:
        """Return the loss times the task's weight."""
        return loss if self.weights[task] == 1.0 else self.weights[task] * loss

    def total(self, losses: Losses) -> Tensor:
        """Return the weighted sum, in the tasks' order; of no losses, a zero that wants no gradient."""
        terms = [self.weighted(task, loss) for task, loss in losses.items()]
        return reduce(Tensor.add, terms) if terms else torch.zeros(())

    def loss_scaled(self, optimizer: Optimizer, objective: Tensor) -> Tensor:
        """Return what to go backward from before :meth:`apply`: in half precision, the objective times a factor."""
        return objective * self._scale_of(optimizer).factor if self._loss_scales else objective

    def _scale_of(self, optimizer: Optimizer) -> LossScale:
        return next(scale for scale, own in zip(self._loss_scales, self.optimizers, strict=True) if own is optimizer)

    def apply(self, optimizer: Optimizer) -> None:
        """Step on the gradients that are there, clipped where the recipe asks for it.

        In half precision those are of :meth:`loss_scaled` objectives; where one is not finite, no step is taken.
        """
        if self._loss_scales and not self._scale_of(optimizer).taken_off(weights_in(optimizer)):
            return
        if self.recipe.clip.norm is not None:
            nn.utils.clip_grad_norm_(weights_in(optimizer), self.recipe.clip.norm)
        optimizer.step()
        self.updates += 1

    @staticmethod
    def set_gradient(parameter: nn.Parameter, gradient: Tensor | None) -> None:
        """Give ``parameter`` a gradient in its own memory format: torch's fused optimizers take it for granted."""
        if gradient is not None and gradient.stride() != parameter.stride():
            gradient = torch.empty_like(parameter).copy_(gradient)
        parameter.grad = gradient

    def add_gradients(self, parameters: Iterable[nn.Parameter], gradients: Iterable[Tensor | None]) -> None:
        """Add ``gradients`` to those that the ``parameters`` have; None adds nothing."""
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                self.set_gradient(parameter, gradient if parameter.grad is None else parameter.grad + gradient)

    @property
    def trunks(self) -> list[nn.Module]:
        """The modules that stand for the trunk: itself, unless each task has one of its own (`stl`)."""
        return [self.model.trunk]

    def compile(self) -> None:
        """Compile the trunk with ``torch.compile``, unless it is computed again; its weights keep their names."""
        if self.passes.again:
            raise UserError(
                "checkpoint_trunk cannot be used with compile, which plans memory itself: drop one of them."
            )
        allow_several_backward_passes()
        for trunk in self.trunks:
            trunk.compile()

    def trainable(self, heads: Iterable[str]) -> list[nn.Parameter]:
        """Return the trunk's and the given heads' weights that want a gradient, each once."""
        return self._known.of((self.model.trunk, *(self.model.heads[task] for task in heads)))

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the model's weights; tensors are references, as with torch's optimizers."""
        return {
            "strategy": self.info.name,
            "groups": self.groups,
            "mini_batches": self.mini_batches,
            "updates": self.updates,
            "generator": self.recipe.generator.get_state(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            **({"scales": [scale.state_dict() for scale in self._loss_scales]} if self._loss_scales else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``.

        Raises:
            UserError: if it is the state of another strategy or other groups.
        """
        for key, own in (("strategy", self.info.name), ("groups", self.groups)):
            if state[key] != own:
                raise UserError(f"this state has {key}={state[key]}, but the strategy has {key}={own}.")
        self.mini_batches, self.updates = state["mini_batches"], state["updates"]
        self.recipe.generator.set_state(state["generator"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for scale, saved in zip(self._loss_scales, state.get("scales", ()), strict=True):
            scale.load_state_dict(saved)

    def _set_learning_rate(self, scale: float) -> None:
        for optimizer, rates in zip(self.optimizers, self._base_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * scale


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
