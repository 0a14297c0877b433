"""Laws about costs: what the record declares is what a step takes."""

from collections.abc import Sequence

from torch import Tensor
from torch.optim import Optimizer

from tune_mtl.strategies.base import weights_of
from tune_mtl.testing.cases import Case, Meter
from tune_mtl.testing.device import waits
from tune_mtl.testing.hooks import around_steps
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, same
from tune_mtl.training.path import PathLength

MANY = 12
"""Mini-batches after which what happens in every tenth has happened."""
IN_EACH = (
    "Step in every mini-batch with labels: trials are as long as their mini-batches, and a larger batch_size does what"
    " gathering gradients over several of them would."
)


@law(
    way_out="Correct the record; and step with self.update, self.descend or self.apply, which count updates.",
    case=Case(steps=MANY),
)
def updates_are_as_declared(subject: Subject, case: Case) -> Broken | None:
    """A mini-batch takes as many updates as the record declares, with the option that joins them too."""
    joined = subject.info.joined_by
    for variant in [subject, *([subject.under(**{joined: True})] if joined else [])]:
        strategy = variant.make(case)
        for step in range(case.steps):
            declared, before = variant.updates(strategy), strategy.updates
            strategy.step(*case.batch(step))
            if strategy.updates - before != declared:
                said = f"{declared}, by updates='{variant.info.updates}'"
                seen = f"updates in a mini-batch: {strategy.updates - before}; its record says {said}"
                return Broken(seen, IN_EACH if strategy.updates == before else "")
    return None


@law(
    way_out="Change the network's weights through self.optimizers alone, with self.update, self.descend or self.apply.",
)
def every_update_is_on_the_path(subject: Subject, case: Case) -> Broken | None:
    """The path counts each update of the trunk once, and weights change in no other way."""
    strategy = subject.make(case)
    weights = weights_of(strategy.model)
    traced = PathLength(strategy.model, strategy.optimizers) if subject.info.shares_trunk else None
    last, outside, elsewhere = _copies(weights), 0, 0
    trunk, heads = ({id(w) for w in weights_of(part)} for part in (strategy.model.trunk, strategy.model.heads))

    def before(*_: object) -> None:
        nonlocal outside
        outside += not same(last, _copies(weights))

    def after(optimizer: Optimizer, *_: object) -> None:
        nonlocal elsewhere
        steps = {id(p) for group in optimizer.param_groups for p in group["params"]}
        elsewhere += trunk.isdisjoint(steps) and not heads.isdisjoint(steps)
        last[:] = _copies(weights)

    with around_steps(strategy, before, after):
        for step in range(case.steps):
            strategy.step(*case.batch(step))
            before()
            if outside:
                return Broken("weights change outside of any optimizer's step, where the path does not see it")
            if traced is not None and traced.updates + elsewhere != strategy.updates:
                of_heads = f", and {elsewhere} of heads alone" if elsewhere else ""
                counted = f"updates that it has counted: {strategy.updates}"
                return Broken(f"steps on the path: {traced.updates}{of_heads}; {counted}")
    if traced is not None and not traced.total >= traced.from_start() * (1 - 1e-9):
        return Broken(f"the path is {traced.total:.3g} long, less than the {traced.from_start():.3g} it has led to")
    return None


@law(
    way_out="Correct forwards and backwards in the record (a Variant where an option changes them), or spare the pass.",
    case=Case(steps=3),
)
def passes_are_as_declared(subject: Subject, case: Case) -> Broken | None:
    """Passes through the trunk, forward and back, are as many as the record declares, under each of its variants."""
    for variant in [subject, *(subject.under(**{v.option: v.value}) for v in subject.info.variants)]:
        meter = Meter()
        strategy = variant.make(case, meter=meter)
        for step in range(case.steps):
            meter.forwards = meter.backwards = 0
            said = {way: variant.declared(way, strategy) for way in ("forwards", "backwards")}
            strategy.step(*case.batch(step))
            for way, declared in said.items():
                counted = getattr(meter, way)
                if counted != declared and not (step == 0 and way == "forwards" and strategy.info.needs_convolutions):
                    text = getattr(subject.info.under(strategy.options), way)
                    return Broken(
                        f"passes {way.removesuffix('s')} through the trunk in a mini-batch: {counted}; its record says"
                        f" {declared}, by {way}='{text}'"
                    )
    return None


@law(
    way_out="Correct states in the record: as many optimizers as hold the trunk's weights, 'G' of one per group.",
    case=Case(steps=3),
)
def states_are_as_declared(subject: Subject, case: Case) -> Broken | None:
    """Optimizers hold as many states over the trunk as the record declares."""
    strategy = subject.make(case, optimizer="adam")
    declared = subject.declared("states", strategy)
    subject.trained(case, strategy)
    trunk = {id(weight) for weight in weights_of(strategy.model.trunk)}
    held = sum(
        state["exp_avg"].numel()
        for optimizer in strategy.optimizers
        for weight, state in optimizer.state.items()
        if id(weight) in trunk and "exp_avg" in state
    ) / sum(weight.numel() for weight in weights_of(case.network().trunk))
    if held <= declared and (held > declared - 1 or not declared):
        return None
    return Broken(f"optimizer states over the trunk: {held:g}; its record says {declared}, by '{subject.info.states}'")


@law(
    way_out="Keep values on their device: torch.where instead of if, no .item(), float(), bool() or masks as indices;"
    " or declare waits='1' in the record.",
    case=Case(steps=MANY),
)
def waits_for_no_device(subject: Subject, case: Case) -> Broken | None:
    """No step reads a value back from the device more often than ``waits`` of the record: a GPU would stand idle."""
    strategy = subject.make(case, optimizer="sgd")
    for step in range(case.steps):
        batch = case.batch(step, missing=0.3 if step % 2 else None)
        held = [*strategy.model.parameters(), *strategy.model.buffers(), batch.inputs, *batch.targets.values()]
        with waits(held) as found:
            strategy.step(*batch)
        allowed = subject.declared("waits", strategy)
        if len(found) > allowed and step:  # what is set up in the first step may wait
            first = next((wait for wait in found if wait.place), found[0])
            said = f"waits='{subject.info.waits}'"
            return Broken(f"a step waits {_times(len(found))} for {first}; its record says {said}")
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _copies(weights: Sequence[Tensor]) -> list[Tensor]:
    return [weight.detach().clone() for weight in weights]
