"""The figures of a long run: a line per fault while it goes on, Markdown at its end."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.faults.kinds import KINDS


@dataclass
class Fault:
    """One fault and what came of it.

    Attributes:
        resumes: How many it took to bring the search to its end.
        seconds: From the search's start to the last check.
    """

    number: int
    kind: str
    place: str
    moment: str = ""
    resumes: int = 0
    seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.complaints

    def line(self) -> str:
        verdict = "held" if self.held else f"{len(self.complaints)} COMPLAINTS"
        where = f"{self.kind} ({self.place})"
        return f"{self.number:3d} {where:38} {verdict:8} {self.seconds:5.0f} s, {self.resumes} resumes; {self.moment}"


@dataclass
class Verdict:
    """A long search and what came of it."""

    title: str
    figures: str = ""
    seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.complaints

    def line(self) -> str:
        verdict = "held" if self.held else f"{len(self.complaints)} COMPLAINTS"
        return f"    {self.title}: {verdict}, {self.seconds:.0f} s; {self.figures}"


def markdown(faults: Sequence[Fault], long: Sequence[Verdict], seed: int) -> str:
    """Tables for docs/reliability.md."""
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_kind[fault.kind].append(fault)
    lines = [
        f"{len(faults)} faults with seed {seed}: {sum(fault.held for fault in faults)} held.",
        "",
        "| fault | times | all held | resumes | longest, with all checks |",
        "|---|---:|:---:|---:|---:|",
    ]
    for kind in KINDS:
        if kind in by_kind:
            lines.append(_row(KINDS[kind].what, by_kind[kind]))
    if long:
        lines += ["", "| long search | held | figures | duration |", "|---|:---:|---|---:|"]
        lines += [
            f"| {each.title} | {'yes' if each.held else 'no'} | {each.figures} | {each.seconds:.0f} s |"
            for each in long
        ]
    return "\n".join(lines) + "\n"


def _row(what: str, faults: Sequence[Fault]) -> str:
    held = sum(fault.held for fault in faults)
    verdict = "yes" if held == len(faults) else f"{held} of {len(faults)}"
    resumes, longest = sum(fault.resumes for fault in faults), max(fault.seconds for fault in faults)
    return f"| {what} | {len(faults)} | {verdict} | {resumes} | {longest:.0f} s |"
