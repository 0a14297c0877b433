"""The paper's claims, checked on a search's data: holds, does not hold, or cannot tell - with the numbers."""

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tune_mtl.report.evidence import Evidence, Trained
from tune_mtl.report.results import Results, equal_updates
from tune_mtl.report.statistics import ALPHA, Difference, difference, larger
from tune_mtl.report.tables import Cell, Table, number
from tune_mtl.tracking import names

Verdict = Literal["holds", "does not hold", "cannot tell"]
INDIVIDUAL = ("ius", "io")
BASE = "sus"


@dataclass(frozen=True)
class Claim:
    """A claim and what the data say of it."""

    text: str
    verdict: Verdict
    numbers: str


@dataclass(frozen=True)
class Findings:
    """One search, for the claims."""

    evidence: Evidence
    results: Results

    def quality(self, strategy: str) -> list[float]:
        """The objective's metric of the best config, on every seed, so that less is better."""
        sign = 1 if self.evidence.objective.mode == "min" else -1
        return [sign * value for value in self.results.values(strategy, self.evidence.quality)]


def check_claims(found: Sequence[Findings]) -> list[Claim]:
    """Every claim on every search that it applies to."""
    checks: list[Callable[[Findings], Claim]] = [
        travels_further, grows_with_groups, io_best_on_heterogeneous, grouping_beats_none, survives_equal_updates,
    ]  # fmt: skip
    several = len(found) > 1
    claims = []
    for check in checks:
        for one in found:
            claim = check(one)
            claims.append(
                Claim(f"{one.evidence.name}: {claim.text}" if several else claim.text, claim.verdict, claim.numbers)
            )
    return [*claims, shrinks_on_homogeneous(found)]


def claims_table(claims: Sequence[Claim]) -> Table:
    """For pages and terminals."""
    rows = [
        [Cell(claim.text), Cell(claim.verdict, strong=claim.verdict == "holds"), Cell(claim.numbers)]
        for claim in claims
    ]
    note = (
        f"Tests at level {ALPHA:g}: distances paired by seed, as ratios, one-sided; qualities by Welch's. A claim"
        " does not hold where the opposite is significant; where neither is, it cannot be told."
    )
    return Table("claims", "The paper's claims on these data", ["claim", "verdict", "numbers"], rows, [note])


def travels_further(one: Findings) -> Claim:
    """IUS and IO against SUS at one learning rate: total, shortest, ratio."""
    text = "IUS and IO travel further than SUS (total, shortest, ratio)"
    found = one.evidence.paths()
    base = found.get(BASE)
    rivals = {
        name: runs for name, runs in found.items() if runs[0].strategy in INDIVIDUAL and (runs[0].groups or 0) > 1
    }
    if not base or not rivals:
        return Claim(text, "cannot tell", "needs whole runs of sus, and of ius or io, at one learning rate")
    parts = [
        _longer(base, runs, kind, f"{name} {kind}")
        for name, runs in rivals.items()
        for kind in ("total", "shortest", "ratio")
    ]
    return Claim(text, _together([verdict for verdict, _ in parts]), "; ".join(said for _, said in parts))


def grows_with_groups(one: Findings) -> Claim:
    """The distance of IUS and of IO from one group count to the next larger."""
    text = "Distances grow with the number of groups"
    parts = []
    for strategy in INDIVIDUAL:
        counted = {runs[0].groups: runs for runs in one.evidence.paths().values() if runs[0].strategy == strategy}
        counts = sorted(count for count in counted if count is not None)
        for fewer, more in itertools.pairwise(counts):
            for kind in ("total", "shortest"):
                parts.append(
                    _longer(counted[fewer], counted[more], kind, f"{strategy} {more} against {fewer} groups, {kind}")
                )
    if not parts:
        return Claim(text, "cannot tell", "needs whole runs with several group counts at one learning rate")
    return Claim(text, _together([verdict for verdict, _ in parts]), "; ".join(said for _, said in parts))


def io_best_on_heterogeneous(one: Findings) -> Claim:
    """IO against every other strategy."""
    text = "IO is best on tasks of different nature"
    if one.evidence.facts.get("homogeneous") is not False:
        return Claim(text, "cannot tell", "the tasks are of one kind, or nobody knows")
    rivals = [name for name in one.results.runs if name not in ("io", "stl") and one.quality(name)]
    if "io" not in one.results.runs or not rivals:
        return Claim(text, "cannot tell", "needs io and another strategy")
    verdicts, said = [], []
    for name in rivals:
        gap = difference(one.quality("io"), one.quality(name))
        verdicts.append(_better(gap))
        said.append(f"{name} {_worse(gap)}")
    return Claim(text, _together(verdicts), "; ".join(said))


def grouping_beats_none(one: Findings) -> Claim:
    """The best count between 1 and N against one group per task, both at their best learning rate."""
    text = "Moderate grouping beats none"
    tasks = len(one.evidence.tasks)
    parts = []
    for strategy in INDIVIDUAL:
        reached = _best_by_groups(one, strategy)
        moderate = {count: values for count, values in reached.items() if 1 < count < tasks}
        if tasks not in reached or not moderate:
            continue
        count = min(moderate, key=lambda groups: statistics.fmean(moderate[groups]))
        gap = difference(moderate[count], reached[tasks])
        parts.append((_better(gap), f"{strategy}: none is {_worse(gap)} than {count} groups"))
    if not parts:
        return Claim(text, "cannot tell", "needs ius or io with one group per task, and with fewer, on several seeds")
    return Claim(text, _together([verdict for verdict, _ in parts]), "; ".join(said for _, said in parts))


def survives_equal_updates(one: Findings) -> Claim:
    """The better of IUS and IO against SUS with as many updates.

    Holds if it is still significantly better; does not hold if it is significantly worse, or if the 95 % interval of
    what is left excludes the advantage that it has at its own budget.
    """
    text = "The advantage over SUS survives equal updates (which the paper did not ask)"
    sign = 1 if one.evidence.objective.mode == "min" else -1
    samples = {name: [sign * value for value in values] for name, values in equal_updates(one.results).items()}
    rivals = [name for name in INDIVIDUAL if name in samples]
    controlled = one.evidence.confirmed(names.EQUAL_UPDATES, BASE) or one.evidence.settings.get("budget") == "updates"
    if BASE not in samples or not rivals or not controlled:
        return Claim(text, "cannot tell", "needs confirmation of sus, and of ius or io")
    best = min(rivals, key=lambda name: statistics.fmean(samples[name]))
    at_own = difference(one.quality(best), one.quality(BASE))
    gap = difference(samples[best], samples[BASE])
    said = f"sus is {_worse(at_own)} than {best} at its own budget, {_worse(gap)} at equal updates"
    if _better(at_own) != "holds":
        return Claim(text, "cannot tell", f"there is no significant advantage to begin with: {said}")
    assert at_own is not None
    assert gap is not None
    gone = _better(gap) == "does not hold" or gap.high < at_own.value
    verdict: Verdict = "holds" if _better(gap) == "holds" else "does not hold" if gone else "cannot tell"
    return Claim(text, verdict, said)


def shrinks_on_homogeneous(found: Sequence[Findings]) -> Claim:
    """The relative spread between strategies, on a problem of each kind."""
    text = "Differences between strategies shrink on homogeneous tasks"
    spreads: dict[Any, list[tuple[str, float]]] = {True: [], False: []}
    for one in found:
        means = [
            statistics.fmean(values)
            for name in (BASE, *INDIVIDUAL)
            if name in one.results.runs and (values := one.quality(name))
        ]
        if len(means) > 1 and statistics.fmean(means):
            kind = one.evidence.facts.get("homogeneous")
            spreads.get(kind, []).append((one.evidence.name, (max(means) - min(means)) / abs(statistics.fmean(means))))
    if not all(spreads.values()):
        return Claim(text, "cannot tell", "needs two searches: one on tasks of one kind, one on tasks of several")
    said = "; ".join(f"{name}: {spread:.1%}" for several in spreads.values() for name, spread in several)
    shrinks = max(spread for _, spread in spreads[True]) < min(spread for _, spread in spreads[False])
    return Claim(text, "holds" if shrinks else "does not hold", f"spread of sus, ius and io around their mean: {said}")


def _best_by_groups(one: Findings, strategy: str) -> dict[int, list[float]]:
    """For every group count, the objective on all seeds of the config that does best on validation; less is better."""
    evidence = one.evidence
    metric, sign = names.best_metric(evidence.objective.metric), 1 if evidence.objective.mode == "min" else -1
    configs: dict[int, dict[str, list[float]]] = {}
    for run in evidence.trials:
        if run.strategy == strategy and run.outcome == "completed" and run.groups and metric in run.metrics:
            rest = repr(sorted((key, repr(value)) for key, value in run.config.items() if key != "seed"))
            configs.setdefault(run.groups, {}).setdefault(rest, []).append(sign * run.metrics[metric])
    return {count: min(found.values(), key=statistics.fmean) for count, found in configs.items()}


def _longer(base: Sequence[Trained], rival: Sequence[Trained], kind: str, label: str) -> tuple[Verdict, str]:
    """Whether ``rival`` went further than ``base`` on the seeds that both have."""
    values = [{run.config["seed"]: run.metrics.get(f"path/best_{kind}") for run in runs} for runs in (base, rival)]
    seeds = [seed for seed in values[0] if values[0][seed] and values[1].get(seed)]
    pairs = [(float(values[0][seed] or 0), float(values[1][seed] or 0)) for seed in seeds]
    if len(pairs) < 2:
        return "cannot tell", f"{label}: {len(pairs)} seed(s) in common"
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    p = larger(first, second)
    factor = statistics.geometric_mean([b / a for a, b in pairs])
    verdict: Verdict = "holds" if p < ALPHA else "does not hold" if p > 1 - ALPHA else "cannot tell"
    return verdict, f"{label} x {factor:.2f} (p = {p:.2g})"


def _better(gap: Difference | None) -> Verdict:
    """Whether the first of a difference (less is better) is significantly better."""
    if gap is None or gap.p_value >= ALPHA:
        return "cannot tell"
    return "holds" if gap.value > 0 else "does not hold"


def _worse(gap: Difference | None) -> str:
    """The second of a difference, in words."""
    if gap is None:
        return "not testable (one seed)"
    side = "worse" if gap.value >= 0 else "better"
    return f"{number(abs(gap.value))} {side} (p = {gap.p_value:.2g})"


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    """All must hold; one that does not hold is enough for the whole not to."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if all(verdict == "holds" for verdict in verdicts) else "cannot tell"
