"""The Jacobian made in stages of the trunk's graph is the one that whole passes make, whatever the trunk."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers, lists
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tune_mtl.strategies.base import SharedPass
from tune_mtl.strategies.jacobian import passes
from tune_mtl.strategies.jacobian.passes import Arrived, TrunkJacobian
from tune_mtl.strategies.jacobian.stages import _cheapest, stages

ROWS, WIDTH = 3, 6


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.inside(inputs)


class Tied(nn.Module):
    """One layer stands at two places, with another between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.tied, self.between = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.tied(self.between(self.tied(self.first(inputs).tanh()).tanh()).tanh())


class Hooked(nn.Module):
    """Hooks change gradients between layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = layer(inputs).tanh()
            inputs.register_hook(lambda gradient: 3.0 * gradient)
        return inputs


class Several(nn.Module):
    """Two outputs, one of them from the middle; one weight that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.idle = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        middle = self.layers[1](self.layers[0](inputs).tanh()).tanh()
        return self.layers[3](self.layers[2](middle).tanh()), middle


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.inside = nn.Linear(WIDTH, WIDTH), nn.LSTM(WIDTH, WIDTH, num_layers=2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inside(self.before(inputs)[None])[0][0]


def plain() -> nn.Module:
    norm = nn.BatchNorm1d(WIDTH)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), norm, nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH), nn.Tanh())


def half_frozen() -> nn.Module:
    trunk = plain()
    trunk[0].requires_grad_(False)
    return trunk


def weight_normed() -> nn.Module:
    return nn.Sequential(*(parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)) for _ in range(3)))


def residual() -> nn.Module:
    return nn.Sequential(*(Residual() for _ in range(3)))


TRUNKS: dict[Callable[[], nn.Module], int] = {
    plain: 3, half_frozen: 2, weight_normed: 3, residual: 3, Tied: 2, Hooked: 4, Several: 3, Recurrent: 2,
}  # fmt: skip
"""Trunks, and into how many stages their graphs can be cut at least."""


def shared_pass(trunk: nn.Module) -> SharedPass:
    generator = torch.Generator().manual_seed(1)
    found = trunk(torch.randn(8, WIDTH, generator=generator, dtype=torch.float64))
    outputs = list(found) if isinstance(found, tuple) else [found]
    return SharedPass(outputs, [output.detach().requires_grad_() for output in outputs], {})


def arriving(shared: SharedPass, weights: list[nn.Parameter]) -> list[Arrived]:
    """What heads might give: the second task does not look at the last output, the third uses a trunk weight itself."""
    generator = torch.Generator().manual_seed(2)
    made = []
    for row in range(ROWS):
        at_leaves: list[Tensor | None] = [
            torch.randn(output.shape, generator=generator, dtype=output.dtype) for output in shared.outputs
        ]
        if row == 1 and len(at_leaves) > 1:
            at_leaves[-1] = None
        direct: list[Tensor | None] = [None] * len(weights)
        if row == 2:
            direct[-1] = torch.ones_like(weights[-1])
        made.append(Arrived(at_leaves, direct))
    return made


def whole(shared: SharedPass, weights: list[nn.Parameter], arrived: list[Arrived]) -> Tensor:
    rows = []
    for one in arrived:
        pairs = [(o, g) for o, g in zip(shared.outputs, one.at_leaves, strict=True) if g is not None]
        found = torch.autograd.grad(
            [o for o, _ in pairs], weights, [g for _, g in pairs], retain_graph=True, materialize_grads=True,
            allow_unused=True,
        )  # fmt: skip
        own = [g if d is None else g + d for g, d in zip(found, one.direct, strict=True)]
        rows.append(torch.cat([gradient.flatten() for gradient in own]))
    return torch.stack(rows)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("make", TRUNKS)
def test_rows_parts_and_sums_are_those_of_whole_passes(make, cut, monkeypatch):
    torch.manual_seed(0)
    trunk = make().double()
    weights = [weight for weight in trunk.parameters() if weight.requires_grad]
    shared = shared_pass(trunk)
    arrived = arriving(shared, weights)
    expected = whole(shared, weights, arrived)
    if cut:
        monkeypatch.setattr(passes, "_FEW", 0)
        monkeypatch.setattr(passes, "_SMALL", 0)
        monkeypatch.setattr(passes, "stages", lambda *given: stages(*given, join=False))
    made = TrunkJacobian(shared, weights, iter(arrived), ROWS)
    found = torch.full_like(expected, torch.nan)
    sizes = [weight.numel() for weight in weights]
    parts = 0
    for part in made.parts():
        parts += 1
        for place, rows in made.split(part, part.rows):
            found.split(sizes, dim=1)[place].copy_(rows)
    assert parts >= TRUNKS[make] if cut else parts == 1
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    shares = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    again = TrunkJacobian(shared, weights, iter(arrived), ROWS)
    by_row = [torch.cat([gradient.flatten() for gradient in row]) for row in again.rows()]
    torch.testing.assert_close(torch.stack(by_row), expected, rtol=1e-12, atol=1e-14)
    combined = torch.cat([gradient.flatten() for gradient in made.combined(shares)])
    torch.testing.assert_close(combined, shares @ expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=60)
@given(sizes=lists(integers(0, 20), min_size=1, max_size=7), ends=lists(integers(0, 20), min_size=7, max_size=7))
def test_joined_stages_hold_as_little_as_any_joining(sizes, ends):
    ends = [*ends[: len(sizes) - 1], 0]

    def held(cuts: tuple[int, ...]) -> int:
        starts = (0, *cuts[:-1])
        pieces = zip(starts, cuts, strict=True)
        return max((ends[s - 1] if s else 0) + sum(sizes[s:e]) + ends[e - 1] for s, e in pieces)

    inner = range(1, len(sizes))
    every = [
        (*(place for place in inner if choice >> place & 1), len(sizes)) for choice in range(0, 2 ** len(sizes), 2)
    ]
    found = _cheapest(tuple(sizes), tuple(ends))
    assert max(held(found), max(sizes)) == max(min(map(held, every)), max(sizes))
    assert found in every


def test_a_large_trunk_is_never_held_as_a_whole(monkeypatch):
    monkeypatch.setattr(passes, "_SMALL", 10_000)
    trunk = nn.Sequential(*(nn.Linear(40, 40) for _ in range(6))).double()
    weights = list(trunk.parameters())
    output = trunk(torch.ones(2, 40, dtype=torch.float64))
    arrived = [Arrived([torch.ones_like(output)], [None] * len(weights)) for _ in range(8)]
    made = TrunkJacobian(SharedPass([output], [output.detach()], {}), weights, arrived, 8)
    widths = [part.rows.shape[1] for part in made.parts()]
    assert sum(widths) == sum(weight.numel() for weight in weights)
    assert max(widths) <= 41 * 40


class InOnePiece(torch.autograd.Function):
    """A graph of a single node, as a compiled trunk has; it counts its backward passes."""

    passes = 0

    @staticmethod
    def forward(context, inputs, first, second):
        context.save_for_backward(inputs, first, second)
        return inputs @ first @ second

    @staticmethod
    def backward(context, gradient):
        InOnePiece.passes += 1
        inputs, first, second = context.saved_tensors
        return None, inputs.T @ gradient @ second.T, (inputs @ first).T @ gradient


def test_what_cannot_be_cut_is_held_and_takes_no_pass_more(monkeypatch):
    monkeypatch.setattr(passes, "_FEW", 0)
    monkeypatch.setattr(passes, "_SMALL", 0)
    monkeypatch.setattr(InOnePiece, "passes", 0)
    weights = [nn.Parameter(torch.randn(4, 4, dtype=torch.float64)) for _ in range(2)]
    output = InOnePiece.apply(torch.randn(5, 4, dtype=torch.float64), *weights)
    shared = SharedPass([output], [output.detach()], {})
    arrived = [Arrived([torch.randn_like(output)], [None, None]) for _ in range(ROWS)]
    made = TrunkJacobian(shared, weights, arrived, ROWS)
    (part,) = made.parts()
    combined = torch.cat([gradient.flatten() for gradient in made.combined(torch.ones(ROWS, dtype=torch.float64))])
    assert InOnePiece.passes == ROWS
    torch.testing.assert_close(combined, part.rows.sum(dim=0))
    torch.testing.assert_close(part.rows, whole(shared, weights, arrived))
