"""What there is to choose from, for people."""

from tune_mtl.problems.registry import problems
from tune_mtl.strategies.registry import registry
from tune_mtl.terminal.console import console, table


def list_problems() -> None:
    """Print the built-in problems, and how to name one's own."""
    table(("problem", "what it is", "tasks"), [(p.name, p.title, p.tasks) for p in problems.values()])
    console().print("\nYour own: package.module:attribute, found from the current directory.")


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
