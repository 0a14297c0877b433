"""Every rule as one would write it by hand for one model: what the harness is measured against."""

from collections.abc import Callable, Sequence

import torch
from bare_parts import LR, LossFunctions, Step, adam, summed, terms
from bare_rows import averaging, direction_oriented, doubly_sampled, evened, halving, moving_shares
from torch import Tensor, nn
from torchjd import aggregation, scalarization
from torchjd.autojac import jac_to_grad, mtl_backward

from tune_mtl import Batch, MultiTaskModel
from tune_mtl.strategies.jacobian.scalarized import ScalarizedLoss
from tune_mtl.strategies.methods.mgda_ub import min_norm_weights
from tune_mtl.strategies.registry import strategy_class, strategy_info


def in_turn(model: MultiTaskModel, losses: LossFunctions, groups: Sequence[Sequence[str]], optimizers) -> Step:
    def step(batch: Batch) -> None:
        for group, optimizer in zip(groups, optimizers, strict=True):
            total = summed(terms(model, losses, group, model.trunk(batch.inputs), batch))
            optimizer.zero_grad()
            total.backward()
            optimizer.step()

    return step


def sus(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    return in_turn(model, losses, [list(losses)], [adam(model)])


def ius(model: MultiTaskModel, losses: LossFunctions, groups: Sequence[Sequence[str]]) -> Step:
    return in_turn(model, losses, groups, [adam(model)] * len(groups))


def io(model: MultiTaskModel, losses: LossFunctions, groups: Sequence[Sequence[str]]) -> Step:
    return in_turn(model, losses, groups, [adam(model.trunk, *(model.heads[t] for t in g)) for g in groups])


def stl(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    import copy

    trunks = {task: copy.deepcopy(model.trunk) for task in losses}
    optimizers = {task: adam(trunks[task], model.heads[task]) for task in losses}

    def step(batch: Batch) -> None:
        for task, optimizer in optimizers.items():
            optimizer.zero_grad()
            losses[task](model.heads[task](trunks[task](batch.inputs)), batch.targets[task]).backward()
            optimizer.step()

    return step


def gradnorm(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    layer = [m for m in model.trunk.modules() if isinstance(m, nn.Conv2d)][-1].weight
    weights = nn.Parameter(torch.ones(len(losses)))
    optimizer, own = adam(model), torch.optim.Adam([weights], lr=LR, fused=True)
    first = None

    def step(batch: Batch) -> None:
        nonlocal first
        found = terms(model, losses, list(losses), model.trunk(batch.inputs), batch)
        norms = torch.stack([torch.autograd.grad(loss, layer, retain_graph=True)[0].norm() for loss in found])
        optimizer.zero_grad()
        summed([w * loss for w, loss in zip(weights.detach(), found, strict=True)]).backward()
        now = torch.stack([loss.detach() for loss in found])
        first = now if first is None else first
        scaled = weights.detach() * norms
        rates = now / first
        weights.grad = torch.sign(scaled - scaled.mean() * (rates / rates.mean()) ** 1.5) * norms
        optimizer.step()
        own.step()
        with torch.no_grad():
            weights.mul_(len(losses) / weights.sum())

    return step


def norms(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    """While it measures: after that it is SUS."""
    layer = [m for m in model.trunk.modules() if isinstance(m, nn.Conv2d)][-1].weight
    measured = torch.zeros(len(losses))
    optimizer = adam(model)

    def step(batch: Batch) -> None:
        found = terms(model, losses, list(losses), model.trunk(batch.inputs), batch)
        gradients = [torch.autograd.grad(loss, layer, retain_graph=True)[0] for loss in found]
        measured.add_(torch.stack([gradient.norm() for gradient in gradients]))
        optimizer.zero_grad()
        summed(found).backward()
        optimizer.step()

    return step


def weighing(weigh: Callable[[Tensor], Sequence[float]], seen: Callable[[Tensor], Tensor]) -> Callable[..., Step]:
    """One step on a weighted sum of what is ``seen`` of the losses."""

    def make(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
        optimizer = adam(model)

        def step(batch: Batch) -> None:
            found = terms(model, losses, list(losses), model.trunk(batch.inputs), batch)
            weights = weigh(torch.stack([loss.detach() for loss in found]))
            optimizer.zero_grad()
            summed([w * seen(loss) for w, loss in zip(weights, found, strict=True)]).backward()
            optimizer.step()

        return step

    return make


def aligned(losses: Tensor, shares: Tensor) -> list[float]:
    """GO4Align's weights in two clusters."""
    scales, order = (shares * losses.sum() / losses).sort()
    cuts = range(1, len(scales)) if len(scales) > 1 else [1]
    parts = min(
        ((scales[:cut], scales[cut:]) for cut in cuts),
        key=lambda two: sum(float((part - part.mean()).square().sum()) for part in two if len(part)),
    )
    means = torch.cat([part.mean().expand(len(part)) for part in parts])
    weights: list[float] = torch.empty_like(means).index_copy_(0, order, means).tolist()
    return weights


def aligning() -> Callable[[Tensor], list[float]]:
    """The same, with shares that move."""
    logs = None

    def weigh(losses: Tensor) -> list[float]:
        nonlocal logs
        logs = torch.zeros_like(losses) if logs is None else logs
        logs = torch.log_softmax(logs - 1e-4 * losses, dim=0)
        return aligned(losses, logs.exp())

    return weigh


def mgda_ub(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    optimizer = adam(model)

    def step(batch: Batch) -> None:
        features = model.trunk(batch.inputs)
        found = terms(model, losses, list(losses), features, batch)
        rows = torch.stack([torch.autograd.grad(loss, features, retain_graph=True)[0].flatten() for loss in found])
        wide = rows.double()
        weights = min_norm_weights((wide @ wide.T).numpy())
        optimizer.zero_grad()
        summed([w * loss for w, loss in zip(weights, found, strict=True)]).backward()
        optimizer.step()

    return step


def mr(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    norms = [module for module in model.trunk.modules() if isinstance(module, nn.BatchNorm2d)]
    masks = [(torch.rand(len(losses), norm.num_features) < 0.8).float() for norm in norms]
    active = 0
    for norm, mask in zip(norms, masks, strict=True):
        norm.register_forward_hook(lambda _m, _i, output, mask=mask: output * mask[active].view(-1, 1, 1))
    optimizer = adam(model)

    def step(batch: Batch) -> None:
        nonlocal active
        for active, task in enumerate(losses):  # noqa: B007 - the hooks read it
            optimizer.zero_grad()
            terms(model, losses, [task], model.trunk(batch.inputs), batch)[0].backward()
            optimizer.step()

    return step


def adatask(model: MultiTaskModel, losses: LossFunctions, groups: Sequence[Sequence[str]]) -> Step:
    owned = [[p for m in (model.trunk, *(model.heads[t] for t in g)) for p in m.parameters()] for g in groups]
    optimizers = [torch.optim.Adam(parameters, lr=LR, fused=True) for parameters in owned]

    def step(batch: Batch) -> None:
        features = model.trunk(batch.inputs)
        found = []
        for group, parameters in zip(groups, owned, strict=True):
            total = summed(terms(model, losses, group, features, batch))
            found.append(torch.autograd.grad(total, parameters, retain_graph=True))
        for parameters, gradients, optimizer in zip(owned, found, optimizers, strict=True):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()

    return step


def selective(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    """Single tasks, as during the warm-up."""
    names, optimizer = list(losses), adam(model)
    affinities = torch.zeros(len(names), len(names))

    def step(batch: Batch) -> None:
        before = terms(model, losses, names, model.trunk(batch.inputs), batch)
        order = torch.randperm(len(names)).tolist()
        for position, task in enumerate(order):
            optimizer.zero_grad()
            before[task].backward()
            optimizer.step()
            with torch.set_grad_enabled(position + 1 < len(order)):
                after = terms(model, losses, names, model.trunk(batch.inputs), batch)
            gains = torch.stack([1 - (a / b).detach() for a, b in zip(after, before, strict=True)])
            affinities[task].lerp_(gains, 1e-3)
            before = after

    return step


def jacobian(name: str) -> Callable[..., Step]:
    classes = {kind.lower(): getattr(aggregation, kind) for kind in aggregation.__all__}

    def make(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
        options = strategy_info(name).options().model_dump()
        count = len(losses)
        if "weights" in options:
            options["weights"] = torch.ones(count)
        if "leak" in options:
            options["leak"] = torch.zeros(count)
        if "trim_number" in options:
            options["trim_number"] = 1
        if name == "jd_nashmtl":
            options["n_tasks"] = count
        options.pop("at", None)
        return descent(model, losses, classes[name.removeprefix("jd_")](**options))

    return make


def descent(model: MultiTaskModel, losses: LossFunctions, aggregator: aggregation.Aggregator) -> Step:
    optimizer = adam(model)
    fast = isinstance(aggregator, aggregation.GramianWeightedAggregator)
    trunk = list(model.trunk.parameters())
    heads = [list(model.heads[task].parameters()) for task in losses]

    def step(batch: Batch) -> None:
        features = model.trunk(batch.inputs)
        found = terms(model, losses, list(losses), features, batch)
        optimizer.zero_grad()
        mtl_backward(found, features=features, tasks_params=heads, shared_params=trunk, parallel_chunk_size=1)
        jac_to_grad(trunk, aggregator, **({"optimize_gramian_computation": True} if fast else {}))
        optimizer.step()

    return step


def crmogm(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
    """Of MGDA; TorchJD's wrapper, on the device where it is."""
    wrapped = aggregation.MGDAWeighting(**strategy_info("jd_mgda").options().model_dump())
    aggregator = aggregation.GramianWeightedAggregator(aggregation.CRMOGMWeighting(wrapped))
    return descent(model, losses, aggregator)


def scalarized(name: str) -> Callable[..., Step]:
    classes = {kind.lower(): getattr(scalarization, kind) for kind in scalarization.__all__}

    def make(model: MultiTaskModel, losses: LossFunctions, _: Sequence[Sequence[str]]) -> Step:
        kind = classes[name.removeprefix("jd_")]
        shaped = [len(losses)] if kind.__name__ in ("UW", "IMTLL", "FAMO") else []
        scalarizer = kind(*shaped, **({"mu": 0.1} if kind.__name__ == "STCH" else {}))
        updates = hasattr(scalarizer, "update")
        optimizer = adam(model) if updates else adam(model, scalarizer)

        def step(batch: Batch) -> None:
            optimizer.zero_grad()
            scalarizer(torch.stack(terms(model, losses, list(losses), model.trunk(batch.inputs), batch))).backward()
            optimizer.step()
            if updates:
                with torch.no_grad():
                    after = terms(model, losses, list(losses), model.trunk(batch.inputs), batch)
                scalarizer.update(torch.stack(after))

        return step

    return make


_BY_HAND = {
    "sus": sus, "ius": ius, "io": io, "scalar": sus, "stl": stl, "gradnorm": gradnorm, "mgda_ub": mgda_ub, "mr": mr,
    "adatask": adatask, "selective": selective, "norms": norms,
    "rlw": weighing(lambda found: torch.softmax(torch.randn(len(found)), dim=0).tolist(), lambda loss: loss),
    "igb": weighing(lambda found: [1.0] * len(found), torch.log),
    "go4align": weighing(aligning(), lambda loss: loss),
    "crmogm": crmogm,
    "db_mtl": averaging(torch.log, evened), "moco": averaging(lambda loss: loss, moving_shares()),
    "modo": halving(doubly_sampled()), "sdmgrad": halving(direction_oriented()),
}  # fmt: skip


def bare_loop(strategy: str, model: MultiTaskModel, losses: LossFunctions, groups: Sequence[Sequence[str]]) -> Step:
    """The rule of ``strategy``, by hand."""
    family = scalarized if issubclass(strategy_class(strategy), ScalarizedLoss) else jacobian
    return (_BY_HAND.get(strategy) or family(strategy))(model, losses, groups)
