"""What a report has no evidence for, and what would give it."""

from collections import Counter

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting import coverage
from tune_mtl.reporting.controls import left_out, left_out_text
from tune_mtl.reporting.groups import missing_factorial
from tune_mtl.reporting.results import Results, equal_updates, poorly_tuned
from tune_mtl.reporting.tables.number_format import number
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking import names


def gaps(results: Results) -> list[str]:
    """Return what is missing, each with the way to get it."""
    search = results.search
    found = []
    asked = search.facts.get("total")
    ended = sum(run.ended for run in search.trials)
    if search.state == "running":
        found.append(
            f"The search is still running, or was killed: {ended}{f' of {asked}' if asked else ''} trials have ended."
            f" If it was killed, tune-mtl resume {search.name} goes on with it."
        )
    elif search.state == "interrupted":
        found.append(f"The search was interrupted: tune-mtl resume {search.name} goes on with it.")
    elif asked is not None and ended < asked:
        why = "the time was up" if search.settings.get("time_budget") else "the search ended early"
        found.append(f"{ended} of {asked} trials were run: {why}.")
    if search.tags.get(names.CONFIRMATION, "complete") != "complete":
        found.append(f"Confirmation is not complete: tune-mtl confirm {search.name} goes on with it.")
    found += _absent(search)
    if search.winners and not results.confirmed:
        how = (
            f" tune-mtl confirm {search.name} trains the winners on fresh seeds." if search.state == "complete" else ""
        )
        found.append(
            f"Nothing is confirmed: these are the numbers by which the configs were selected, so they flatter.{how}"
        )
    elif results.runs and results.prefix != "test/":
        found.append("The problem has no test split: everything is on validation, on which epochs were selected.")
    found += _lost_reruns(results)
    found += left_out_text(results)
    if len(results.runs) > 1 and not results.by_tuning:
        found.append(
            "Each strategy was tuned once, so configs are compared, not strategies: which learning rate a tuning finds"
            " is chance too. A search with --replicates 8 repeats the tuning."
        )
    found += _replicates_lost(results)
    found += _poorly_tuned(results)
    if results.runs and results.count < 2:
        more = f" tune-mtl confirm {search.name} --seeds 3 adds more." if results.confirmed else ""
        found.append(f"One seed only: no deviation, no test.{more}" if not results.by_tuning else "One tuning only.")
    if len(search.strategies) == 1:
        found.append(f"Only {search.strategies[0]} was searched: there is nothing to compare it with.")
    undefined = [
        name
        for name in (search.quality, *results.judged)
        if results.runs and not all(results.values(s, name) for s in results.runs)
    ]
    if undefined:
        found.append(f"Not defined for every strategy: {', '.join(dict.fromkeys(undefined))}.")
    if search.facts.get("objective_warning"):
        found.append(str(search.facts["objective_warning"]))
    if search.settings.get("balance") == "none":
        found.append("Strategies got unequal numbers of trials (--balance none): the comparison is not fair.")
    if search.facts.get("protocol") == "paper":
        found.append("protocol=paper: configs and epochs were selected on the official test or validation split.")
    found += coverage.warnings(search)
    found += missing_factorial(search)
    return found


def _replicates_lost(results: Results) -> list[str]:
    """Name replicates that do not count, and strategies without a result in some: those that are left may flatter."""
    search = results.search
    found = []
    cut = search.cut_replicates
    if cut and search.state != "running":
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


def _lost_reruns(results: Results) -> list[str]:
    """Name confirming runs that are not among the results, and so may flatter those that are."""
    search = results.search
    found = []
    for strategy in search.winners if results.confirmed else ():
        if not search.rerun(names.CONFIRM, strategy):
            found.append(f"{strategy} has not been confirmed.")
        for role, kind in ((names.CONFIRM, "confirming runs"), (names.EQUAL_UPDATES, "runs with as many updates")):
            runs = search.rerun(role, strategy)
            lost = Counter(run.outcome for run in runs if run.outcome != Outcome.COMPLETED)
            if lost:
                said = ", ".join(f"{count} {outcome}" for outcome, count in lost.items())
                found.append(f"Of {len(runs)} {kind} of {strategy}, {said}: its numbers are those of the others.")
    if len({len(runs) for runs in results.runs.values()}) > 1 and not results.by_tuning:
        found.append("Strategies have results on unequal numbers of seeds.")
    if search.outdated:
        found.append(
            f"{len(search.outdated)} confirming runs are of configs that do not win any more, and were left out."
            f" tune-mtl confirm {search.name} confirms the present winners."
        )
    explained = {*equal_updates(results), *left_out(results).get(names.EQUAL_UPDATES, ())}
    uncontrolled = [name for name in results.runs if search.shares_trunk(name) and name not in explained]
    if results.confirmed and uncontrolled and search.confirmed(names.EQUAL_UPDATES):
        found.append(f"No run with as many updates as the others: {', '.join(uncontrolled)}.")
    return found


def _absent(search: SearchData) -> list[str]:
    """Name strategies that nothing can be said of."""
    absent = [strategy for strategy in search.strategies if strategy not in search.winners]
    unmeasured = [name for name in absent if any(run.strategy == name and run.ranked for run in search.trials)]
    lost = [name for name in absent if name not in unmeasured]
    outcomes = {run.outcome for run in search.trials if run.strategy in lost}
    found = (
        [f"No trial of {', '.join(lost)} ended well ({', '.join(sorted(outcomes)) or 'none was run'})."] if lost else []
    )
    if unmeasured:
        found.append(f"No trial of {', '.join(unmeasured)} has {search.objective.metric}, which decides.")
    return found
