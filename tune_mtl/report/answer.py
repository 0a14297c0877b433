"""The answer in a sentence or two, with its uncertainty."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tune_mtl.report.evidence import Evidence
from tune_mtl.report.missing import gaps
from tune_mtl.report.numbers import difference_text, number, p_text, sample_text
from tune_mtl.report.results import Results, equal_updates, seeds_text
from tune_mtl.report.statistics import ALPHA, Difference, Sample, difference, holm, welch
from tune_mtl.tracking import names

_FEW = 6
"""Up to so many strategies are named in the sentence."""


@dataclass(frozen=True)
class Answer:
    """What a search says.

    Attributes:
        headline: Which strategy, how many groups, which learning rate.
        details: How sure that is, sentence by sentence.
        missing: What there is no evidence for, and what would give it.
    """

    headline: str
    details: list[str]
    missing: list[str]

    def __str__(self) -> str:
        return " ".join([self.headline, *self.details])


@dataclass(frozen=True)
class _Against:
    """The best against every other on the split that is reported.

    Attributes:
        p_values: Welch's, Holm-corrected, by strategy; NaN where there is no test.
        gaps: Theirs minus the best's, so that more is worse; None with fewer than two results on a side.
        without: Strategies that have no result.
    """

    p_values: Mapping[str, float]
    gaps: Mapping[str, Difference | None]
    without: Sequence[str]

    @classmethod
    def of(cls, samples: Mapping[str, list[float]], best: str, sign: int) -> "_Against":
        rivals = {name: [sign * x for x in found] for name, found in samples.items() if found and name != best}
        mine = [sign * x for x in samples[best]]
        p_values = holm([welch(Sample.of(mine), Sample.of(found)) for found in rivals.values()])
        return cls(
            dict(zip(rivals, p_values, strict=True)),
            {name: difference(mine, found) for name, found in rivals.items()},
            [name for name, found in samples.items() if not found],
        )

    @property
    def alike(self) -> list[str]:
        """Not told apart from the best."""
        return [name for name, p in self.p_values.items() if p >= ALPHA]

    @property
    def ahead(self) -> list[str]:
        """Significantly better than the best: it was chosen on validation."""
        return [name for name, p in self.p_values.items() if p < ALPHA and (gap := self.gaps[name]) and gap.value < 0]

    @property
    def untested(self) -> list[str]:
        """With too few results."""
        return [*(name for name, p in self.p_values.items() if math.isnan(p)), *self.without]


def answer(evidence: Evidence, results: Results) -> Answer:
    """Of one search."""
    missing = gaps(evidence, results)
    if not results.runs:
        return Answer("No trial has ended well: there is no answer yet.", [], missing)
    best, *others = results.runs
    config = results.runs[best][0].config
    groups = results.runs[best][0].groups
    with_groups = "" if groups is None else f" with {groups} group{'s' if groups > 1 else ''}"
    tried = len(evidence.strategies) > 1
    every = ", ".join(results.runs) if len(results.runs) <= _FEW else f"{len(results.runs)} strategies"
    among = f"of {every}" if others else "no other has results" if tried else "no other was tried"
    winner = f"{best}{with_groups} at learning rate {number(float(config['lr']))}"
    quality = evidence.quality
    samples = {name: results.values(name, quality) for name in results.runs}
    if not samples[best]:
        return Answer(f"{winner} is best ({among}).", [f"{quality} on {results.split} is not defined for it."], missing)
    against = _Against.of(samples, best, evidence.sign)
    if against.ahead:
        verdict = f"is best on validation ({among}), but on {results.split} {_listed(against.ahead)} better."
    elif against.alike:
        verdict = f"is best on average ({among}), but not told apart from {' and '.join(against.alike)}."
    else:
        verdict = f"is best{_as_far_as_known(evidence, results)} ({among})."
    reached = sample_text(Sample.of(samples[best]))
    where = (
        seeds_text(len(samples[best]), "fresh")
        if results.confirmed
        else f"{seeds_text(len(samples[best]))} of the search"
    )
    details = [f"{quality} on {results.split}: {reached} over {where}."]
    details += _told_apart(results, against)
    details += _at_equal_updates(results, best)
    return Answer(f"{winner} {verdict}", details, missing)


def _as_far_as_known(evidence: Evidence, results: Results) -> str:
    if results.confirmed:
        return ""
    return " in the search" if evidence.state == "complete" else " so far"


def _listed(names_of: Sequence[str]) -> str:
    return f"{' and '.join(names_of)} {'is' if len(names_of) == 1 else 'are'}"


def _told_apart(results: Results, against: _Against) -> list[str]:
    """The next in rank with its distance, and whether anybody is told from the best."""
    if not against.gaps:
        return []
    following, gap = next(iter(against.gaps.items()))
    if not any(against.gaps.values()):
        return [f"One seed says nothing about chance: {results.label(following)} comes next."]
    how_far = "on one seed" if gap is None else _apart(gap, against.p_values[following])
    said = [f"Next is {results.label(following)}, {how_far}."]
    told = [name for name, p in against.p_values.items() if p < ALPHA]
    whom = "every other strategy" if not against.alike and not against.untested else ", ".join(told)
    which = f"The difference to {whom}" if told else "No difference"
    said.append(f"{which} is significant at level {ALPHA:g} (Welch, Holm-corrected).")
    if against.untested:
        said.append(f"Too few results to compare with: {', '.join(against.untested)}.")
    return said


def _apart(gap: Difference, p_value: float) -> str:
    """``0.15 worse (95 % interval 0.13 to 0.17; p = 0.012, Holm-corrected)``."""
    ends = (gap.low, gap.high) if gap.value >= 0 else (-gap.high, -gap.low)
    low, high = (difference_text(gap, end) for end in ends)
    size = difference_text(gap, abs(gap.value))
    side = "worse" if gap.value >= 0 else "better"
    return f"{size} {side} (95 % interval {low} to {high}; {p_text(p_value)}, Holm-corrected)"


def _at_equal_updates(results: Results, best: str) -> list[str]:
    """What is left of the advantage if the others may take as many steps."""
    evidence, samples = results.evidence, equal_updates(results)
    controlled = {run.strategy for run in evidence.confirmed(names.EQUAL_UPDATES)} - {best}
    samples = {name: values for name, values in samples.items() if name == best or name in controlled}
    if len(samples) < 2 or best not in samples:
        return []
    against = _Against.of(samples, best, evidence.sign)
    nearest = min(against.p_values, key=lambda name: evidence.sign * Sample.of(samples[name]).mean)
    if nearest in against.alike:
        verdict = "which is not told apart from it"
    elif nearest in against.ahead:
        verdict = "which is better"
    else:
        verdict = "still worse" if nearest not in against.untested else "on too few seeds to compare"
    said = f"Given as many updates, {nearest} reaches {sample_text(Sample.of(samples[nearest]))}, {verdict}"
    also = [name for name in against.alike if name != nearest]
    return [
        f"{said} ({p_text(against.p_values[nearest])})."
        + (
            f" Nor {'is' if len(also) == 1 else 'are'} {' and '.join(also)}."
            if nearest in against.alike and also
            else ""
        )
    ]
