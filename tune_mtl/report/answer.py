"""The answer in a sentence or two, with its uncertainty, and what is missing."""

from dataclasses import dataclass

from tune_mtl.report.evidence import Evidence
from tune_mtl.report.results import Results, equal_updates
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
    among = f"of {', '.join(results.runs)}" if others else "the only strategy tried"
    headline = f"{best}{with_groups} at learning rate {number(float(config['lr']))} is best ({among})."
    quality = evidence.quality
    values = results.values(best, quality)
    if not values:
        return Answer(headline, [f"{quality} on {results.split} is not defined for it."], missing)
    reached = Cell(Sample.of(values)).text
    where = (
        f"{results.seeds} fresh seed{'s' if results.seeds > 1 else ''}"
        if results.confirmed
        else "the search's own seeds"
    )
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
        return ["One seed says nothing about chance."]
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
    if alike:
        said.append(f"Not told apart from it at level {ALPHA:g}: {', '.join(alike)}.")
    else:
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


def gaps(evidence: Evidence, results: Results) -> list[str]:
    """What is missing, each with the way to get it."""
    found = []
    asked = evidence.facts.get("total")
    if evidence.state == "running":
        ended = sum(run.outcome not in ("running", "interrupted") for run in evidence.trials)
        found.append(f"The search is still running, or was killed: {ended} of {asked or '?'} trials have ended.")
    elif evidence.state == "interrupted":
        found.append(f"The search was interrupted: tune-mtl resume {evidence.name} goes on with it.")
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
    lost = [strategy for strategy in evidence.winners if results.confirmed and strategy not in results.runs]
    if lost:
        found.append(f"No confirming run of {', '.join(lost)} ended well.")
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
