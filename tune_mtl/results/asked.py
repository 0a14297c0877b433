"""How a search's option is asked for: on the command line, and in the command that repeats the search."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """Marks an option that a user can ask for, and says how.

    Attributes:
        help: What it means, for the command line and the docstring.
        metavar: What stands for its value on the command line; default: what its type says.
        flag: Its name there, where that is not its own: ``--set`` for ``fixed``.
        repeated: Whether the command that repeats a search says it: not where the search was, and what became of it.
    """

    help: str
    metavar: str | None = None
    flag: str | None = None
    repeated: bool = True
