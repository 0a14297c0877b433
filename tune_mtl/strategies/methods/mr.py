"""Maximum Roaming: every task uses its own share of each convolution's channels, and roams over all of them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.nested import Nested
from tune_mtl.core.options import Options, ShareOfRun, Tunable
from tune_mtl.core.torch_compat import ChannelNorm, Convolution
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.options import Count


class MaximumRoamingOptions(Options):
    """Maximum Roaming: ``sigma`` is the share of channels that each task uses.

    By mini-batch ``updates_end`` every task has used every channel; ``update_size`` channels are swapped at once. With
    ``accumulate`` there is one step on all tasks' gradients instead of one step per task.
    """

    sigma: Annotated[float, Field(gt=0, le=1), Tunable(0.3, 0.95)] = 0.8
    updates_end: Annotated[int, Field(ge=1), ShareOfRun(1 / 3), Tunable(0.1, 0.9)] = 10_000
    update_size: Count = 1
    accumulate: bool = False


class ChannelMask(nn.Module):
    """Which channels of one layer each task uses; as a forward hook it silences the others for the active task."""

    used: Tensor

    def __init__(self, tasks: int, channels: int) -> None:
        super().__init__()
        self.register_buffer("used", torch.ones(tasks, channels, dtype=torch.bool))
        self.active: int | None = None

    def hook(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        """Return ``output``, with the channels that the active task does not use at zero."""
        if self.active is None:
            return output
        mask = self.used[self.active].to(output.dtype)
        return output * mask.view(-1, *(1,) * (output.ndim - 2))


class RoamingModel(MultiTaskModel):
    """The given trunk and heads, each task seeing the trunk through its masks, which are saved with the weights.

    Where the masks sit shows in the first forward pass: after the BatchNorm (or another norm over channels) that takes
    a convolution's output, else after the convolution. Before a norm, a silenced channel would come back as its offset.
    """

    def __init__(self, model: MultiTaskModel, tasks: Sequence[str]) -> None:
        super().__init__(model.trunk, model.heads)
        self._order = list(tasks)
        device = next(model.parameters()).device
        widths = [layer.out_channels for layer in convolutions(model.trunk)]
        self.masks = nn.ModuleList(ChannelMask(len(tasks), width).to(device) for width in widths)
        self._placed = False

    def forward(self, inputs: Nested, tasks: Iterable[str] | None = None) -> dict[str, Nested]:
        """Return predictions by task, each through its own masks: one pass through the trunk per task."""
        if not self._placed:
            self._place_masks(inputs)
        predictions = {}
        for task in self._order if tasks is None else tasks:
            with self.seen_by(task):
                predictions[task] = self.heads[task](self.trunk(inputs))
        return predictions

    @contextmanager
    def seen_by(self, task: str) -> Iterator[None]:
        """Show the trunk as ``task`` sees it; also to what runs again in a backward pass."""
        index, before = self._order.index(task), [mask.active for mask in self.masks]
        for mask in self.masks:
            mask.active = index  # type: ignore[assignment]
        try:
            yield
        finally:
            for mask, active in zip(self.masks, before, strict=True):
                mask.active = active

    def _place_masks(self, inputs: Nested) -> None:
        """Let every mask sit where its convolution's output is done; one that is used several times has several places.

        Raises:
            UserError: if a place would need the masks of several convolutions.
        """
        names = {module: name for name, module in self.trunk.named_modules()}
        places: dict[nn.Module, ChannelMask] = {}
        for (layer, norms), mask in zip(norms_after(self.trunk, inputs).items(), self.masks, strict=True):
            assert isinstance(mask, ChannelMask)
            for place in norms or [layer]:
                if place in places:
                    raise UserError(
                        f"strategy 'mr' cannot mask this trunk: '{names[place]}' takes the outputs of several"
                        " convolutions, each of which has masks of its own."
                    )
                places[place] = mask
        for place, mask in places.items():
            place.register_forward_hook(mask.hook)
        self._placed = True


class MaximumRoaming(Strategy[MaximumRoamingOptions]):
    """Tasks take turns on the same mini-batch as in IUS, each through its masks; or one step on all their gradients.

    Every ``interval`` mini-batches of a layer, each task gives up some random channels for ones it never used, until it
    has used them all: at mini-batch ``updates_end`` for all layers.
    """

    info = StrategyInfo(
        name="mr",
        title="Maximum Roaming",
        rule="one step per task through its own share of each convolution's channels, which roams over all of them",
        family="baselines",
        options=MaximumRoamingOptions,
        forwards="N",
        backwards="N",
        updates="N",
        joined_by="accumulate",
        memory="one bit per task and channel",
        needs_convolutions=True,
        compiles=False,
        fp16=True,
        reference="Pascal et al. 2021, Maximum Roaming Multi-Task Learning",
    )
    model: RoamingModel

    def setup(self) -> None:
        """Draw the first masks."""
        options, generator = self.options, self.recipe.generator
        self.roads: list[Road] = []
        self._used: list[Tensor] = []  # the masks once more, on the host: to move them waits for no device
        for mask in self.model.masks:
            assert isinstance(mask, ChannelMask)
            used = initial_masks(len(self.tasks), mask.used.shape[1], options.sigma, generator)
            mask.used.copy_(used)
            self._used.append(used)
            self.roads.append(Road(used.clone(), options.updates_end, options.update_size))

    @classmethod
    def own_model(cls, model: MultiTaskModel, tasks: Sequence[str]) -> MultiTaskModel:
        """Return the given trunk and heads behind masks."""
        return RoamingModel(model, tasks)

    def learn(self, batch: Labelled) -> Losses:
        """Take one update per task, or one for all; then the masks move."""
        losses: Losses = {}
        if self.options.accumulate:
            losses = self._learn_together(batch)
        else:
            for task in self.tasks:
                with self.model.seen_by(task):
                    losses |= self.update(self.optimizers[0], [task], batch)
        for index, (mask, road) in enumerate(zip(self.model.masks, self.roads, strict=True)):
            if road.moves_at(self.mini_batches + 1):
                assert isinstance(mask, ChannelMask)
                self._used[index] = road.move(self._used[index], self.recipe.generator)
                mask.used.copy_(self._used[index], non_blocking=True)
        return losses

    def _learn_together(self, batch: Labelled) -> Losses:
        """Go backward through one task's graph at a time: their gradients add up."""
        self.optimizers[0].zero_grad()
        losses: Losses = {}
        any_gradient = False
        for task in self.tasks:
            with self.model.seen_by(task):
                for loss in self.losses([task], batch).values():
                    if loss.requires_grad:
                        self.loss_scaled(self.optimizers[0], self.weighted(task, loss)).backward()  # type: ignore[no-untyped-call]
                        any_gradient = True
                    losses[task] = loss.detach()
        if any_gradient:
            self.apply(self.optimizers[0])
        return losses

    def each_loss(self, batch: Labelled) -> Iterator[tuple[str, Tensor]]:
        """Yield each labelled task's loss, through its own masks: one forward pass at a time is held."""
        for task in self.tasks:
            with self.model.seen_by(task):
                yield from self.losses([task], batch).items()

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the masks and the channels that each task has used so far."""
        masks = [mask.used for mask in self.model.masks]
        return super().state_dict() | {"masks": masks, "visited": [road.visited for road in self.roads]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._used = [used.cpu().clone() for used in state["masks"]]
        for mask, used in zip(self.model.masks, self._used, strict=True):
            mask.used.copy_(used)  # type: ignore[operator]
        for road, visited in zip(self.roads, state["visited"], strict=True):
            road.visited.copy_(visited)


class Road:
    """The way of one layer's masks: when they move, and which channels are left to visit.

    Attributes:
        visited: bool ``[tasks, channels]``, what each task has used so far.
        interval: Mini-batches between moves; None if there is nowhere to go.
        size: Channels that move at once: more than asked for where the end would come too soon, never more than a task
            uses.
    """

    def __init__(self, visited: Tensor, updates_end: int, update_size: int) -> None:
        self.visited = visited
        unvisited = int((~visited).sum(dim=1).max())
        self.size = min(max(update_size, math.ceil(unvisited / updates_end)), int(visited.sum(dim=1).min()))
        self.interval = max(1, updates_end // math.ceil(unvisited / self.size)) if unvisited else None

    def moves_at(self, mini_batch: int) -> bool:
        """Return whether the masks move after this mini-batch, counted from 1."""
        return self.interval is not None and mini_batch % self.interval == 0 and not bool(self.visited.all())

    def move(self, used: Tensor, generator: torch.Generator) -> Tensor:
        """Return new masks: each task gives up as many channels as it takes, and takes none that it has used before."""
        moved = used.clone()
        for task in range(len(used)):
            fresh = _draw(~self.visited[task], self.size, generator)
            dropped = _draw(used[task], len(fresh), generator)
            moved[task, dropped] = False
            moved[task, fresh] = True
        self.visited |= moved
        return moved


def initial_masks(tasks: int, channels: int, sigma: float, generator: torch.Generator) -> Tensor:
    """Return bool ``[tasks, channels]``: channel u goes to task u mod N; then each task gets more at random.

    At most ``floor((1 - sigma) channels)`` channels of each task stay unused, and one at least is used.
    """
    used = torch.zeros(tasks, channels, dtype=torch.bool)
    used[torch.arange(channels) % tasks, torch.arange(channels)] = True
    spare = min(math.floor((1 - sigma) * channels + 1e-9), channels - 1)
    for row in used:
        row[_draw(~row, int((~row).sum()) - spare, generator)] = True
    return used


def _draw(candidates: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw up to ``count`` different indices of true ``candidates``, at random."""
    indices = candidates.nonzero().squeeze(1)
    order = torch.randperm(len(indices), generator=generator)
    return indices[order[: max(count, 0)]]


def convolutions(trunk: nn.Module) -> list[Convolution]:
    """Return all convolutions of a trunk, in the order they are registered.

    Raises:
        UserError: if there is none.
    """
    found = [module for module in trunk.modules() if isinstance(module, Convolution)]
    if not found:
        raise UserError("strategy 'mr' needs a trunk with convolutions: it masks their channels. This one has none.")
    return found


@torch.no_grad()
def norms_after(trunk: nn.Module, inputs: Nested) -> dict[nn.Module, list[nn.Module]]:
    """Return, for each convolution, the norms over channels that take its outputs, as seen in one forward pass.

    The pass is made in evaluation mode and with random numbers of its own: it leaves no trace.

    Raises:
        UserError: if norms take only some outputs of a convolution that is used several times.
    """
    found: dict[nn.Module, list[nn.Module]] = {layer: [] for layer in convolutions(trunk)}
    made: dict[int, tuple[nn.Module, Tensor]] = {}
    normed: set[int] = set()

    def leaves_convolution(layer: nn.Module, _inputs: Any, output: Tensor) -> None:
        made[id(output)] = (layer, output)

    def enters_norm(norm: nn.Module, inputs: tuple[Any, ...]) -> None:
        layer, _ = made.get(id(inputs[0]), (None, None))
        if layer is not None:
            normed.add(id(inputs[0]))
            if norm not in found[layer]:
                found[layer].append(norm)

    norms = [module for module in trunk.modules() if isinstance(module, ChannelNorm)]
    hooks = [layer.register_forward_hook(leaves_convolution) for layer in found]
    hooks += [norm.register_forward_pre_hook(enters_norm) for norm in norms]
    training = {module: module.training for module in trunk.modules()}
    device = next(trunk.parameters()).device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            trunk.eval()
            trunk(inputs)
    finally:
        for module, mode in training.items():
            module.training = mode
        for hook in hooks:
            hook.remove()
    for output, (layer, _) in made.items():
        if found[layer] and output not in normed:
            raise UserError(
                "strategy 'mr' cannot mask this trunk: a convolution is used several times, and only some of its"
                " outputs go through a norm."
            )
    return found
