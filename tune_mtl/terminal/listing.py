"""What there is to choose from, for people."""

from collections.abc import Mapping

from tune_mtl.core.options import Options, described
from tune_mtl.problems.registry import problems
from tune_mtl.strategies.optimizers import optimizers
from tune_mtl.strategies.registry import registry
from tune_mtl.strategies.schedules import schedules
from tune_mtl.terminal.console import console, table

_OWN = "Your own: {flag}package.module:{what}, found from the current directory{more}."
"""How to name what one has written oneself: the last line of every list."""


def list_problems() -> None:
    """Print the built-in problems, and how to name one's own."""
    table(("problem", "what it is", "tasks"), [(p.name, p.title, p.tasks) for p in problems.values()])
    _say_how_to_bring("attribute")


def list_strategies() -> None:
    """Print all strategies, with what one mini-batch does and the names of their options."""
    rows = [
        (
            info.name,
            info.title,
            info.rule,
            "yes" if info.has_groups else "no",
            ", ".join(f"{info.name}_{option}" for option in info.options.model_fields) or "-",
        )
        for info in registry.values()
    ]
    table(("strategy", "title", "one mini-batch is", "groups", "options"), rows)
    _say_how_to_bring("Class", flag="--strategy ", more="; a subclass of tune_mtl.Strategy")


def list_optimizers() -> None:
    """Print the built-in optimizers with their options, and how to name one's own."""
    _list("optimizer", {info.name: (info.title, info.options) for info in optimizers.values()})
    more = "; any subclass of torch.optim.Optimizer, torch's own too: torch.optim:RAdam"
    _say_how_to_bring("Class", flag="--optimizer ", more=more)


def list_schedules() -> None:
    """Print the built-in schedules with their options, and how to name one's own."""
    _list("schedule", {info.name: (info.title, info.options) for info in schedules.values()})
    more = "; its keywords are options, and it returns mini_batch -> factor of lr"
    _say_how_to_bring("function", flag="--schedule ", more=more)


def _list(kind: str, listed: Mapping[str, tuple[str, type[Options]]]) -> None:
    rows = []
    for name, (title, options) in listed.items():
        lines = described(name, options) or [("-", "", "")]
        rows += [(name if not place else "", title if not place else "", *line) for place, line in enumerate(lines)]
    table((kind, "what it is", "option", "default", "searched in wide"), rows)


def _say_how_to_bring(what: str, flag: str = "", more: str = "") -> None:
    console().print("\n" + _OWN.format(flag=flag, what=what, more=more), soft_wrap=True)


def list_algorithms() -> None:
    """Print who may choose configs, and how to bring one's own."""
    rows = [
        ("optuna", "Optuna's TPE learns from the trials of its tuning: where good ones are, more are tried", "yes"),
        ("random", "pure chance, spread evenly", "no"),
        ("grid", "every config of the space, on each of its seeds", "no"),
    ]
    table(("algorithm", "who chooses configs", "learns"), rows)
    console().print(
        "\nYour own: any sampler of Optuna's, --algorithm optuna.samplers:GPSampler, or mine:make_sampler: a class, or"
        " a function that takes a seed and returns one, found from the current directory.",
        soft_wrap=True,
    )
