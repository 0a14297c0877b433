"""One thing that is wrong with a problem."""

from dataclasses import dataclass

from tune_mtl.core.errors import UserError


@dataclass(frozen=True)
class Finding:
    """What is wrong, where, and what to do about it; ``str()`` says it in one line.

    Attributes:
        task: The task concerned; None where it is the data, the network or all tasks.
        what: What is wrong.
        way_out: What to do.
        warning: Whether the problem can be trained all the same.
    """

    task: str | None
    what: str
    way_out: str
    warning: bool = False

    def __str__(self) -> str:
        where = "" if self.task is None else f"task '{self.task}': "
        what = self.what if self.what.endswith(".") else f"{self.what}."
        return " ".join(f"{where}{what} {self.way_out}".split())


class Unusable(Exception):
    """What was asked for cannot be had: the finding says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def said(error: BaseException) -> str:
    """Return an error in a line, with its kind where it is not our own."""
    text = " ".join(str(error).split())
    if isinstance(error, UserError):
        return text
    text = text if len(text) <= 240 else text[:237] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
