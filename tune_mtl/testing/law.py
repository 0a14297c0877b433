"""What a law is, and what comes of holding a strategy to it."""

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import torch

from tune_mtl.core.imports import in_a_line
from tune_mtl.core.seeds import isolated
from tune_mtl.testing.cases import Case
from tune_mtl.testing.subject import Subject
from tune_mtl.testing.torch_settings import settings_put_back

State: TypeAlias = Literal["held", "broke", "does not apply"]


@dataclass(frozen=True)
class Broken:
    """How a law was broken on one case.

    Attributes:
        what: What was seen.
        way_out: What to do, where it is not what the law says anyway.
    """

    what: str
    way_out: str = ""


Rule: TypeAlias = Callable[[Subject, Case], "Broken | None"]


@dataclass(frozen=True)
class LawResult:
    """What came of holding a strategy to one law; ``str()`` says it in one line.

    Attributes:
        law: The law's name.
        state: ``held``, ``broke`` or ``does not apply``.
        what: What broke it, or why it does not apply.
        way_out: What to do about it.
        example: The smallest case that breaks it; None where it holds or does not apply.
    """

    law: str
    state: State
    what: str = ""
    way_out: str = ""
    example: Case | None = None

    def __str__(self) -> str:
        return f"{self.law}: {self.told()}"

    def told(self) -> str:
        """Return all but the law's name in one line."""
        if self.state == "held":
            return "held"
        where = "" if self.example is None else f" (smallest example: {self.example})"
        way_out = f" -> {self.way_out}" if self.way_out else ""
        return " ".join(f"{self.state}: {self.what}{where}{way_out}".split())

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Law:
    """Something that holds for every strategy, whatever its rule.

    Attributes:
        name: That of its function, and the id of its test.
        sentence: What it says.
        rule: Holds a subject to it on one case; returns how it was broken, or None.
        way_out: What a strategy that breaks it should do.
        unless: Returns why it does not apply to a subject; empty if it does.
        case: The case it is tried on; smaller ones are tried where that breaks it.
        least_steps: The fewest mini-batches that can show anything.
        least_tasks: The fewest tasks that can.
    """

    name: str
    sentence: str
    rule: Rule
    way_out: str
    unless: Callable[[Subject], str]
    case: Case
    least_steps: int = 1
    least_tasks: int = 1

    def hold(self, subject: Subject) -> LawResult:
        """Return what comes of holding ``subject`` to this law; global random states and torch's settings stay
        as they were."""
        with isolated(cuda=False), settings_put_back(), warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            why_not = self.unless(subject)
            if why_not:
                return LawResult(self.name, "does not apply", why_not)
            fewest = subject.info.needs_tasks
            case = replace(self.case, tasks=max(self.case.tasks, fewest))
            found = self._tried(subject, case)
            if found is None:
                return LawResult(self.name, "held")
            for smaller in case.smaller(max(fewest, self.least_tasks), self.least_steps):
                smallest = self._tried(subject, smaller)
                if smallest is not None:
                    found, case = smallest, smaller
                    break
        return LawResult(self.name, "broke", found.what, found.way_out or self.way_out, case)

    def _tried(self, subject: Subject, case: Case) -> Broken | None:
        try:
            return self.rule(subject, case)
        except (Exception, SystemExit) as error:
            return Broken(f"it fails: {in_a_line(error)}", "Mend that line first.")


def law(
    *,
    way_out: str,
    unless: Callable[[Subject], str] = lambda _: "",
    case: Case | None = None,
    least_steps: int = 1,
    least_tasks: int = 1,
) -> Callable[[Rule], Law]:
    """Make a law of a function: its name is the law's, the first line of its docstring is what the law says."""

    def made(rule: Rule) -> Law:
        sentence = (rule.__doc__ or "").strip().partition("\n")[0]
        name = getattr(rule, "__name__", "")
        return Law(name, sentence, rule, way_out, unless, case or Case(), least_steps, least_tasks)

    return made
