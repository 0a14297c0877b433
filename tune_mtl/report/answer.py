"""The answer in a sentence or two, with its uncertainty, and what is missing."""

import math
from collections import Counter
from dataclasses import dataclass

from tune_mtl.report.evidence import Evidence, shares_trunk
from tune_mtl.report.results import Results, equal_updates, seeds_text
from tune_mtl.report.statistics import ALPHA, Sample, difference, holm, welch
from tune_mtl.report.tables import Cell, number
from tune_mtl.tracking import names


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
    among = f"of {', '.join(results.runs)}" if others else "no other has results" if tried else "no other was tried"
    headline = f"{best}{with_groups} at learning rate {number(float(config['lr']))} is best ({among})."
    quality = evidence.quality
    values = results.values(best, quality)
    if not values:
        return Answer(headline, [f"{quality} on {results.split} is not defined for it."], missing)
    reached = Cell(Sample.of(values)).text
    where = seeds_text(len(values), "fresh") if results.confirmed else f"{seeds_text(len(values))} of the search"
    details = [f"{quality} on {results.split}: {reached} over {where}."]
    details += _against_others(results, best, others)
    details += _at_equal_updates(results, best)
    return Answer(headline, details, missing)


def _against_others(results: Results, best: str, others: list[str]) -> list[str]:
    quality = results.evidence.quality
    mine = results.values(best, quality)
    rivals = {name: values for name in others if (values := results.values(name, quality))}
    if not rivals:
        return []
    p_values = dict(zip(rivals, holm([welch(Sample.of(mine), Sample.of(v)) for v in rivals.values()]), strict=True))
    next_best = next(iter(rivals))
    gap = difference(mine, rivals[next_best])
    if gap is None:
        return [f"One seed says nothing about chance: {results.label(next_best)} comes next."]
    sign = 1 if results.evidence.objective.mode == "min" else -1
    low, high = sorted((sign * gap.low, sign * gap.high))
    side = "worse" if sign * gap.value >= 0 else "better"
    if side == "better":
        low, high = -high, -low
    said = [
        f"Next is {results.label(next_best)}, {number(abs(gap.value))} {side}"
        f" (95 % interval {number(low)} to {number(high)}, p = {p_values[next_best]:.2g})."
    ]
    alike = [name for name, p in p_values.items() if p >= ALPHA]
    untested = [name for name in others if not p_values.get(name, math.nan) >= 0]
    if alike:
        said.append(f"Not told apart from it at level {ALPHA:g}: {', '.join(alike)}.")
    if untested:
        said.append(f"Too few results to compare with: {', '.join(untested)}.")
    if not alike and not untested:
        said.append(
            f"The difference to every other strategy is significant at level {ALPHA:g} (Welch, Holm-corrected)."
        )
    return said


def _at_equal_updates(results: Results, best: str) -> list[str]:
    """What is left of the advantage if the others may take as many steps."""
    evidence, samples = results.evidence, equal_updates(results)
    if not evidence.confirmed(names.EQUAL_UPDATES) or len(samples) < 2 or best not in samples:
        return []
    sign = 1 if evidence.objective.mode == "min" else -1
    rivals = {name: values for name, values in samples.items() if name != best}
    p_values = dict(
        zip(rivals, holm([welch(Sample.of(samples[best]), Sample.of(v)) for v in rivals.values()]), strict=True)
    )
    nearest = min(rivals, key=lambda name: sign * Sample.of(rivals[name]).mean)
    text = f"{nearest} reaches {Cell(Sample.of(rivals[nearest])).text}"
    p = p_values[nearest]
    if not p < ALPHA:
        verdict = "which is not told apart from it"
    elif sign * (Sample.of(rivals[nearest]).mean - Sample.of(samples[best]).mean) > 0:
        verdict = "still worse"
    else:
        verdict = "which is better"
    return [f"Given as many updates, {text}, {verdict} (p = {p:.2g})."]


def _lost_reruns(evidence: Evidence, results: Results) -> list[str]:
    """Confirming runs that are not among the results, and so may flatter those that are."""
    found = []
    for strategy in evidence.winners if results.confirmed else ():
        runs = evidence.rerun(names.CONFIRM, strategy)
        lost = Counter(run.outcome for run in runs if run.outcome != "completed")
        if not runs:
            found.append(f"{strategy} has not been confirmed.")
        elif lost:
            said = ", ".join(f"{count} {outcome}" for outcome, count in lost.items())
            found.append(f"Of {len(runs)} confirming runs of {strategy}, {said}: its numbers are those of the others.")
    if len({len(runs) for runs in results.runs.values()}) > 1:
        found.append("Strategies have results on unequal numbers of seeds.")
    if evidence.outdated:
        found.append(
            f"{len(evidence.outdated)} confirming runs are of configs that do not win any more, and were left out."
            f" tune-mtl confirm {evidence.name} confirms the present winners."
        )
    controlled = equal_updates(results)
    uncontrolled = [name for name in results.runs if shares_trunk(name) and name not in controlled]
    if results.confirmed and uncontrolled and evidence.confirmed(names.EQUAL_UPDATES):
        found.append(f"No run with as many updates as the others: {', '.join(uncontrolled)}.")
    return found


def gaps(evidence: Evidence, results: Results) -> list[str]:
    """What is missing, each with the way to get it."""
    found = []
    asked = evidence.facts.get("total")
    ended = sum(run.outcome not in ("running", "interrupted") for run in evidence.trials)
    if evidence.state == "running":
        found.append(f"The search is still running, or was killed: {ended} of {asked or '?'} trials have ended.")
    elif evidence.state == "interrupted":
        found.append(f"The search was interrupted: tune-mtl resume {evidence.name} goes on with it.")
    elif asked is not None and ended < asked:
        found.append(f"The time was up after {ended} of {asked} trials.")
    if evidence.tags.get(names.CONFIRMATION, "complete") != "complete":
        found.append(f"Confirmation is not complete: tune-mtl confirm {evidence.name} goes on with it.")
    absent = [strategy for strategy in evidence.strategies if strategy not in evidence.winners]
    if absent:
        outcomes = {run.outcome for run in evidence.trials if run.strategy in absent}
        found.append(f"No trial of {', '.join(absent)} ended well ({', '.join(sorted(outcomes)) or 'none was run'}).")
    if evidence.winners and not results.confirmed:
        found.append(
            f"Nothing is confirmed: these are the numbers by which the configs were selected, so they flatter."
            f" tune-mtl confirm {evidence.name} trains the winners on fresh seeds."
        )
    elif results.runs and results.prefix != "test/":
        found.append("The problem has no test split: everything is on validation, on which epochs were selected.")
    found += _lost_reruns(evidence, results)
    if results.runs and results.seeds < 2:
        found.append("One seed only: no deviation, no test. Give --confirm 3, or more.")
    if len(evidence.strategies) == 1:
        found.append(f"Only {evidence.strategies[0]} was searched: there is nothing to compare it with.")
    undefined = [
        name
        for name in (evidence.quality, *results.judged)
        if results.runs and not all(results.values(s, name) for s in results.runs)
    ]
    if undefined:
        found.append(f"Not defined for every strategy: {', '.join(dict.fromkeys(undefined))}.")
    if evidence.settings.get("balance") == "none":
        found.append("Strategies got unequal numbers of trials (--balance none): the comparison is not fair.")
    if evidence.facts.get("protocol") == "paper":
        found.append("protocol=paper: configs and epochs were selected on the official test or validation split.")
    return found
