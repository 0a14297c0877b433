"""The paper's claims, checked on a search's data: holds, does not hold, or cannot tell - with the numbers."""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.results import Results, equal_updates, unit_text
from tune_mtl.reporting.statistics.comparison import POWER, Comparison, compare_strategies
from tune_mtl.reporting.statistics.needed import MOST_UNITS, Effect, units_to_tell
from tune_mtl.reporting.statistics.significance import ALPHA, Sample, holm, larger, welch
from tune_mtl.reporting.tables.number_format import difference_text, p_text
from tune_mtl.reporting.tables.table import Cell, Table
from tune_mtl.results.search_data import SearchData, Trained
from tune_mtl.tracking import names

Verdict = Literal["holds", "does not hold", "cannot tell"]
INDIVIDUAL = ("ius", "io")
BASE = "sus"


@dataclass(frozen=True)
class Claim:
    """A claim and what the data say of it.

    Attributes:
        text: The claim.
        verdict: What the data say.
        numbers: The numbers behind it, separated by semicolons.
        needed: How many units would tell, where it cannot be told and that is known; more than ``MOST_UNITS``: too
            many for anybody.
        parts: The comparisons that it consists of.
    """

    text: str
    verdict: Verdict
    numbers: str
    needed: int | None = None
    parts: Sequence["Part"] = ()


@dataclass(frozen=True)
class Part:
    """One of the comparisons that a claim consists of.

    Attributes:
        said: The comparison in words and numbers.
        for_it: The p-value of its being only chance; NaN where there is no test.
        against: That of the opposite.
        effect: The difference, positive where it is as the claim says; None where it cannot be estimated.
    """

    said: str
    for_it: float
    against: float
    effect: Effect | None = None


@dataclass(frozen=True)
class Findings:
    """One search, for the claims."""

    search: SearchData
    results: Results

    def quality(self, strategy: str) -> dict[int, float]:
        """Return the objective's metric that the tuned strategy reaches, by replicate, so that less is better."""
        return self.signed(self.results.units(strategy, self.search.quality))

    def signed(self, values: Mapping[int, float]) -> dict[int, float]:
        """Return values of the objective's metric, so that less is better."""
        return {unit: self.search.sign * value for unit, value in values.items()}

    def gap(self, first: Mapping[int, float], second: Mapping[int, float]) -> Comparison | None:
        """Return the second minus the first, paired by replicate; None if the search cannot tell strategies apart."""
        if not self.results.tells_strategies:
            return None
        (found,) = compare_strategies({"1": first, "2": second}, looks=self.results.looks)
        return None if math.isnan(found.p) else found.of("1")


def check_claims(found: Sequence[Findings]) -> list[Claim]:
    """Check every claim on every search that it applies to."""
    checks: list[Callable[[Findings], Claim]] = [
        travels_further, grows_with_groups, io_best_on_heterogeneous, grouping_beats_none, survives_equal_updates,
    ]  # fmt: skip
    several = len(found) > 1
    claims = []
    for check in checks:
        for one in found:
            claim = with_needed(check(one))
            claims.append(replace(claim, text=f"{one.search.name}: {claim.text}") if several else claim)
    return [*claims, with_needed(shrinks_on_homogeneous(found))]


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims as a table, for pages and terminals."""
    rows = [
        [Cell(claim.text), Cell(claim.verdict, strong=claim.verdict == "holds"), Cell(claim.numbers)]
        for claim in claims
    ]
    note = (
        f"Tests at level {ALPHA:g}: distances paired by seed, as ratios, one-sided; qualities of tuned strategies"
        " paired by tuning, which needs more than one of each. A claim holds where all of its parts are significant,"
        " and does not where the opposite of one is, corrected for their number (Holm); else it cannot be told. How"
        " many tunings or seeds would tell is reckoned as if the differences were what they seem to be, for a chance of"
        f" {100 * POWER:.0f} %."
    )
    return Table("claims", "The paper's claims on these data", ["claim", "verdict", "numbers"], rows, [note])


def travels_further(one: Findings) -> Claim:
    """Compare IUS and IO with SUS at one learning rate: total, shortest, ratio."""
    text = "IUS and IO travel further than SUS (total, shortest, ratio)"
    found = one.search.paths()
    base = found.get(BASE)
    rivals = {
        name: runs for name, runs in found.items() if runs[0].strategy in INDIVIDUAL and (runs[0].groups or 0) > 1
    }
    if not base or not rivals:
        return Claim(text, "cannot tell", "needs whole runs of sus, and of ius or io, at one learning rate")
    return together(
        text,
        [
            _longer(base, runs, kind, f"{name} {kind}")
            for name, runs in rivals.items()
            for kind in ("total", "shortest", "ratio")
        ],
    )


def grows_with_groups(one: Findings) -> Claim:
    """Compare the distance of IUS and of IO at one group count with that at the next larger."""
    text = "Distances grow with the number of groups"
    parts = []
    for strategy in INDIVIDUAL:
        counted = {runs[0].groups: runs for runs in one.search.paths().values() if runs[0].strategy == strategy}
        counts = sorted(count for count in counted if count is not None)
        for fewer, more in itertools.pairwise(counts):
            for kind in ("total", "shortest"):
                label = f"{strategy} {more} against {fewer} group{'s' if fewer > 1 else ''}, {kind}"
                parts.append(_longer(counted[fewer], counted[more], kind, label))
    if not parts:
        return Claim(text, "cannot tell", "needs whole runs with several group counts at one learning rate")
    return together(text, parts)


def io_best_on_heterogeneous(one: Findings) -> Claim:
    """Compare IO with every other strategy."""
    text = "IO is best on tasks of different nature"
    if one.search.facts.get("homogeneous") is not False:
        return Claim(text, "cannot tell", "the tasks are of one kind, or nobody knows")
    rivals = [name for name in one.results.runs if name not in ("io", "stl") and one.quality(name)]
    if "io" not in one.results.runs or not rivals:
        return Claim(text, "cannot tell", "needs io and another strategy")
    gaps = {name: one.gap(one.quality("io"), one.quality(name)) for name in rivals}
    lost = {name: bool(one.results.lost(name)) for name in ("io", *rivals)}
    claim = together(
        text, [_better(gap, f"{name} {_worse(gap)}", (lost["io"], lost[name])) for name, gap in gaps.items()]
    )
    return _with_lost(one, claim, ("io", *rivals))


def grouping_beats_none(one: Findings) -> Claim:
    """Compare the best count between 1 and N with one group per task, both at their best learning rate, on a grid.

    Holds of a strategy if one of the moderate counts is significantly better, corrected for their number; does not hold
    if all of them are significantly worse.
    """
    text = "Moderate grouping beats none"
    if not _by_epochs(one):
        return Claim(
            text, "cannot tell", f"needs trials of equal epochs, as in the paper; here they have equal {_counts(one)}"
        )
    tasks = len(one.search.tasks)
    parts = []
    for strategy in INDIVIDUAL:
        reached = _best_by_groups(one, strategy)
        moderate = {count: values for count, values in reached.items() if 1 < count < tasks}
        if tasks not in reached or not moderate:
            continue
        gaps = {count: one.gap(values, reached[tasks]) for count, values in moderate.items()}
        count = min(moderate, key=lambda groups: statistics.fmean(moderate[groups].values()))
        said = f"{strategy}: {tasks} groups, one per task, {_worse(gaps[count])} than {count}"
        tested = [_better(gap, said) for gap in gaps.values() if gap is not None]
        for_it = min(holm([part.for_it for part in tested]), default=math.nan)
        against = max(part.against for part in tested) if len(tested) == len(gaps) else math.nan
        parts.append(Part(said, for_it, against, _effect(gaps[count], level=ALPHA / len(gaps))))
    if not parts:
        return Claim(text, "cannot tell", "needs ius or io on a grid (--space paper), one group per task and fewer")
    return together(text, parts)


def survives_equal_updates(one: Findings) -> Claim:
    """Compare the better of IUS and IO with SUS that takes as many updates.

    Holds if it is still significantly better; does not hold if it is significantly worse, or if the 95 % interval of
    what is left excludes the advantage that it has at its own budget. Where neither has an advantage at its own budget,
    nothing needs to be trained with as many updates.
    """
    text = "The advantage over SUS survives equal updates (which the paper did not ask)"
    own = {name: values for name in (BASE, *INDIVIDUAL) if (values := one.quality(name))}
    controlled = one.search.confirmed(names.EQUAL_UPDATES, BASE) or one.search.settings.get("budget") == "updates"
    ahead = any(ahead_of_base(one, name) for name in INDIVIDUAL if name in own)
    if controlled:
        samples = {name: one.signed(values) for name, values in equal_updates(one.results).items()}
    else:
        samples = own if one.results.confirmed and not ahead else {}
    rivals = [name for name in INDIVIDUAL if name in samples]
    if BASE not in samples or not rivals:
        return Claim(text, "cannot tell", "needs confirmation of sus, and of ius or io")
    best = min(rivals, key=lambda name: statistics.fmean(samples[name].values()))
    at_own, gap = one.gap(one.quality(best), one.quality(BASE)), one.gap(samples[best], samples[BASE])
    if at_own is None or gap is None:
        return Claim(text, "cannot tell", f"needs two tunings or more of {best}, and of sus with as many updates")
    said = f"sus {_worse(at_own)} than {best} at its own budget"
    said += f"; with as many updates, {_worse(gap)}" if controlled else ""
    lost = bool(one.results.lost(best)), bool(one.results.lost(BASE))
    begun = together(text, [_better(at_own, said, lost)])
    if begun.verdict != "holds":
        significant = at_own.difference > 0 and at_own.p < ALPHA
        why = "" if significant else "there is no significant advantage to begin with: "
        return _with_lost(one, replace(begun, numbers=why + said), (best, BASE))
    told = _with_lost(one, together(text, [_better(gap, said, lost)]), (best, BASE))
    if told.verdict != "cannot tell":
        return told
    if gap.high < at_own.difference:
        return Claim(text, "does not hold", said)
    left, lost_of_it = _effect(gap), Effect(at_own.difference - gap.difference, gap.deviation)
    ways = [] if told.needed is None or left is None else [left.units(), lost_of_it.units()]
    return replace(told, needed=min(ways, default=None))


def ahead_of_base(one: Findings, name: str) -> bool:
    """Return whether a strategy is significantly better than SUS, both at their own budgets."""
    gap = one.gap(one.quality(name), one.quality(BASE))
    lost = bool(one.results.lost(name)), bool(one.results.lost(BASE))
    return together("", [_better(gap, "", lost)]).verdict == "holds"


def shrinks_on_homogeneous(found: Sequence[Findings]) -> Claim:
    """Compare the relative spread between strategies of every problem of one kind with that of every one of several."""
    text = "Differences between strategies shrink on homogeneous tasks"
    spreads: dict[bool, dict[str, Sample]] = {True: {}, False: {}}
    for one in found:
        kind, spread = one.search.facts.get("homogeneous"), _spread(one)
        if kind in (True, False) and spread is not None:
            spreads[kind][one.search.name] = spread
    if not all(spreads.values()):
        needed = "needs two searches: one on tasks of one kind, such as glyphs, one on tasks of several, as multidigits"
        return Claim(text, "cannot tell", "; ".join([needed, *map(_what_it_is, found)]))
    parts = []
    for alike, less in spreads[True].items():
        for apart, more in spreads[False].items():
            p = welch(less, more)
            said = f"sus, ius and io spread {less.mean:.1%} on {alike}, {more.mean:.1%} on {apart} ({p_text(p)})"
            effect = Effect.between(less, more)
            parts.append(Part(said, *((p, 1.0) if less.mean < more.mean else (1.0, p)), effect))
    return together(text, parts)


def _by_epochs(one: Findings) -> bool:
    """Return whether all trials have equal epochs, as in the paper; else they have equal updates or seconds."""
    return _counts(one) == "epoch"


def _counts(one: Findings) -> str:
    return str(one.search.facts.get("budget", {}).get("counts", "epoch"))


def _what_it_is(one: Findings) -> str:
    """Say of which kind the tasks of a search are, and what else it lacks to be compared with one of the other kind."""
    alike = one.search.facts.get("homogeneous")
    kind = "a kind nobody knows" if alike is None else "one kind" if alike else "several kinds"
    if not _by_epochs(one):
        lacks = f", but its trials have equal {_counts(one)}, not equal epochs"
    elif _spread(one) is None:
        lacks = ", but has not two tunings or more of two of sus, ius and io"
    else:
        lacks = ""
    return f"{one.search.name} is on tasks of {kind}{lacks}"


def _spread(one: Findings) -> Sample | None:
    """Return how far SUS, IUS and IO lie apart, as a share of their mean, over replicates; None if unknown."""
    reached = {name: values for name in (BASE, *INDIVIDUAL) if (values := one.quality(name))}
    if len(reached) < 2 or not one.results.tells_strategies or not _by_epochs(one):
        return None
    order = sorted(reached, key=lambda name: statistics.fmean(reached[name].values()))
    best, worst = reached[order[0]], reached[order[-1]]
    units = sorted(set.intersection(*(set(values) for values in reached.values())))
    middles = {unit: abs(statistics.fmean(values[unit] for values in reached.values())) for unit in units}
    spreads = [(worst[unit] - best[unit]) / middles[unit] for unit in units if middles[unit]]
    return Sample.of(spreads) if spreads else None


def _best_by_groups(one: Findings, strategy: str) -> dict[int, dict[int, float]]:
    """Return the best value of each replicate on validation for every group count of a grid; less is better."""
    search = one.search
    if search.settings.get("algorithm") != "grid":
        return {}
    metric, sign = names.best_metric(search.objective.metric), search.sign
    found: dict[int, dict[int, float]] = {}
    for run in search.trials:
        if run.strategy == strategy and run.outcome == Outcome.COMPLETED and run.groups and metric in run.metrics:
            reached = found.setdefault(run.groups, {})
            value = sign * run.metrics[metric]
            reached[run.replicate] = min(value, reached.get(run.replicate, value))
    return found


def _longer(base: Sequence[Trained], rival: Sequence[Trained], kind: str, label: str) -> Part:
    """Compare ``rival`` with ``base`` on the seeds that both have: did it go further?"""
    values = [{run.config["seed"]: run.metrics.get(f"path/best_{kind}") for run in runs} for runs in (base, rival)]
    seeds = [seed for seed in values[0] if values[0][seed] and values[1].get(seed)]
    pairs = [(float(values[0][seed] or 0), float(values[1][seed] or 0)) for seed in seeds]
    if len(pairs) < 2:
        return Part(f"{label}: no test with {unit_text(len(pairs))} in common", math.nan, math.nan)
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    p = larger(first, second)
    factor = statistics.geometric_mean([b / a for a, b in pairs])
    logs = [math.log(b / a) for a, b in pairs]
    return Part(f"{label} x {factor:.2f} ({p_text(p)})", p, larger(second, first), Effect.paired(logs, sides=1))


def _better(gap: Comparison | None, said: str, lost: tuple[bool, bool] = (False, False)) -> Part:
    """Say whether the first of a difference (less is better) is better; nobody with ``lost`` tunings is said to be."""
    if gap is None:
        return Part(said, math.nan, math.nan)
    for_it, against = (gap.p, 1.0) if gap.difference > 0 else (1.0, gap.p)
    effect = None if any(lost) else _effect(gap)
    return Part(said, math.nan if lost[0] else for_it, math.nan if lost[1] else against, effect)


def _with_lost(one: Findings, claim: Claim, strategies: Sequence[str]) -> Claim:
    """Return a claim that is left open with the reason, where tunings of somebody were lost."""
    lost = {name: len(one.results.lost(name)) for name in strategies}
    said = [
        f"{unit_text(count, 'tuning')} of {name} diverged or failed, so it is not said to be better"
        for name, count in lost.items()
        if count
    ]
    return replace(claim, numbers="; ".join([claim.numbers, *said])) if claim.verdict == "cannot tell" else claim


def _effect(gap: Comparison | None, *, level: float = ALPHA) -> Effect | None:
    """Return how a difference would do with other numbers of tunings; None where it was not tested."""
    return None if gap is None else Effect(gap.difference, gap.deviation, level=level)


def _worse(gap: Comparison | None) -> str:
    """Say in words how much worse the second of a difference is."""
    if gap is None:
        return "has too few tunings for a test"
    side = "worse" if gap.difference >= 0 else "better"
    return f"{difference_text(gap, abs(gap.difference))} {side} ({p_text(gap.p)})"


def together(text: str, parts: Sequence[Part]) -> Claim:
    """Join parts into a claim, which holds if all do. One that is the other way round refutes it, unless by chance."""
    said = "; ".join(part.said for part in parts)
    if any(p < ALPHA for p in holm([part.against for part in parts])):
        return Claim(text, "does not hold", said, parts=parts)
    if all(part.for_it < ALPHA for part in parts):
        return Claim(text, "holds", said, parts=parts)
    return Claim(text, "cannot tell", said, units_to_tell([part.effect for part in parts]), parts)


def needed_text(claim: Claim) -> str | None:
    """Say how many units would tell; None where the claim can be told, or nobody knows."""
    if claim.verdict != "cannot tell" or claim.needed is None:
        return None
    if claim.needed > MOST_UNITS:
        return f"more than {MOST_UNITS} tunings would be needed to tell, if the differences are what they seem to be"
    return f"about {claim.needed} tunings, each with a seed of its own, would tell"


def with_needed(claim: Claim) -> Claim:
    """Return a claim whose numbers end with how many tunings would tell."""
    more = needed_text(claim)
    return claim if more is None else replace(claim, numbers=f"{claim.numbers}; {more}")
