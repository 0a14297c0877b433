"""What a report has no evidence for, and what would give it."""

from collections import Counter

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting import coverage
from tune_mtl.reporting.results import Results, equal_updates, poorly_tuned
from tune_mtl.reporting.tables.number_format import number
from tune_mtl.results.search_data import Evidence, shares_trunk
from tune_mtl.tracking import names


def gaps(evidence: Evidence, results: Results) -> list[str]:
    """Return what is missing, each with the way to get it."""
    found = []
    asked = evidence.facts.get("total")
    ended = sum(run.ended for run in evidence.trials)
    if evidence.state == "running":
        found.append(
            f"The search is still running, or was killed: {ended} of {asked or '?'} trials have ended."
            f" If it was killed, tune-mtl resume {evidence.name} goes on with it."
        )
    elif evidence.state == "interrupted":
        found.append(f"The search was interrupted: tune-mtl resume {evidence.name} goes on with it.")
    elif asked is not None and ended < asked:
        why = "the time was up" if evidence.settings.get("time_budget") else "the search ended early"
        found.append(f"{ended} of {asked} trials were run: {why}.")
    if evidence.tags.get(names.CONFIRMATION, "complete") != "complete":
        found.append(f"Confirmation is not complete: tune-mtl confirm {evidence.name} goes on with it.")
    found += _absent(evidence)
    if evidence.winners and not results.confirmed:
        how = (
            f" tune-mtl confirm {evidence.name} trains the winners on fresh seeds."
            if evidence.state == "complete"
            else ""
        )
        found.append(
            f"Nothing is confirmed: these are the numbers by which the configs were selected, so they flatter.{how}"
        )
    elif results.runs and results.prefix != "test/":
        found.append("The problem has no test split: everything is on validation, on which epochs were selected.")
    found += _lost_reruns(evidence, results)
    if len(results.runs) > 1 and not results.by_tuning:
        found.append(
            "Each strategy was tuned once, so configs are compared, not strategies: which learning rate a tuning finds"
            " is chance too. A search with --replicates 8 repeats the tuning."
        )
    found += _replicates_lost(evidence, results)
    found += _poorly_tuned(results)
    if results.runs and results.count < 2:
        more = f" tune-mtl confirm {evidence.name} --seeds 3 adds more." if results.confirmed else ""
        found.append(f"One seed only: no deviation, no test.{more}" if not results.by_tuning else "One tuning only.")
    if len(evidence.strategies) == 1:
        found.append(f"Only {evidence.strategies[0]} was searched: there is nothing to compare it with.")
    undefined = [
        name
        for name in (evidence.quality, *results.judged)
        if results.runs and not all(results.values(s, name) for s in results.runs)
    ]
    if undefined:
        found.append(f"Not defined for every strategy: {', '.join(dict.fromkeys(undefined))}.")
    if evidence.facts.get("objective_warning"):
        found.append(str(evidence.facts["objective_warning"]))
    if evidence.settings.get("balance") == "none":
        found.append("Strategies got unequal numbers of trials (--balance none): the comparison is not fair.")
    if evidence.facts.get("protocol") == "paper":
        found.append("protocol=paper: configs and epochs were selected on the official test or validation split.")
    found += coverage.warnings(evidence)
    return found


def _replicates_lost(evidence: Evidence, results: Results) -> list[str]:
    """Name replicates that do not count, and strategies without a result in some: those that are left may flatter."""
    found = []
    cut = evidence.cut_replicates
    if cut and evidence.state != "running":
        which = ", ".join(str(replicate + 1) for replicate in cut)
        found.append(f"Replicate {which} is not complete, and does not count: strategies had unequal trials in it.")
    for strategy in results.runs:
        lost = results.lost(strategy)
        if lost:
            found.append(
                f"In {len(lost)} of {results.count} replicates {strategy} has no result (it diverged or failed there):"
                " its numbers are those of the others, and it is not said to be better than anyone."
            )
    return found


def _poorly_tuned(results: Results) -> list[str]:
    """Name strategies that the common learning rate suits better than what their tunings chose."""
    return [
        f"{one.strategy} was poorly tuned: at the common learning rate {number(one.lr)} it reaches {number(one.there)}"
        f" on {results.split}, with its own choices {number(one.chosen)} on the same {one.seeds} seeds."
        " More trials (--samples) would show what it can do."
        for one in poorly_tuned(results)
    ]


def _lost_reruns(evidence: Evidence, results: Results) -> list[str]:
    """Name confirming runs that are not among the results, and so may flatter those that are."""
    found = []
    for strategy in evidence.winners if results.confirmed else ():
        if not evidence.rerun(names.CONFIRM, strategy):
            found.append(f"{strategy} has not been confirmed.")
        for role, kind in ((names.CONFIRM, "confirming runs"), (names.EQUAL_UPDATES, "runs with as many updates")):
            runs = evidence.rerun(role, strategy)
            lost = Counter(run.outcome for run in runs if run.outcome != Outcome.COMPLETED)
            if lost:
                said = ", ".join(f"{count} {outcome}" for outcome, count in lost.items())
                found.append(f"Of {len(runs)} {kind} of {strategy}, {said}: its numbers are those of the others.")
    if len({len(runs) for runs in results.runs.values()}) > 1 and not results.by_tuning:
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


def _absent(evidence: Evidence) -> list[str]:
    """Name strategies that nothing can be said of."""
    absent = [strategy for strategy in evidence.strategies if strategy not in evidence.winners]
    unmeasured = [name for name in absent if any(run.strategy == name and run.ranked for run in evidence.trials)]
    lost = [name for name in absent if name not in unmeasured]
    outcomes = {run.outcome for run in evidence.trials if run.strategy in lost}
    found = (
        [f"No trial of {', '.join(lost)} ended well ({', '.join(sorted(outcomes)) or 'none was run'})."] if lost else []
    )
    if unmeasured:
        found.append(f"No trial of {', '.join(unmeasured)} has {evidence.objective.metric}, which decides.")
    return found
