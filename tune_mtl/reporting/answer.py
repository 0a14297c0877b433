"""The answer in a few sentences, with its uncertainty: never more than the design of the search allows to say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tune_mtl.reporting.gaps import gaps
from tune_mtl.reporting.groups import lucks
from tune_mtl.reporting.results import Results, equal_updates, unit_text, variation
from tune_mtl.reporting.statistics.comparison import POWER, Comparison
from tune_mtl.reporting.statistics.significance import ALPHA, Sample
from tune_mtl.reporting.tables.number_format import difference_text, number, p_text, sample_text
from tune_mtl.tracking import names

_FEW = 6
"""Up to so many strategies are named in the sentence."""


_ALL = 0.995
"""From here a share is written as 100 %, and there is no rest."""


@dataclass(frozen=True)
class Answer:
    """What a search says.

    Attributes:
        headline: Which strategy, how many groups, which learning rate.
        details: How sure that is, sentence by sentence.
        missing: What there is no search for, and what would give it.
    """

    headline: str
    details: list[str]
    missing: list[str]

    def __str__(self) -> str:
        return " ".join([self.headline, *self.details])


def answer(results: Results) -> Answer:
    """Return the answer of one search."""
    search = results.search
    missing = gaps(results)
    if not results.runs:
        return Answer("No trial has ended well: there is no answer yet.", [], missing)
    best, *others = results.runs
    quality = search.quality
    if not results.values(best, quality):
        return Answer(
            f"{_who(results, best)} is best ({_among(results, others)}).",
            [f"{quality} on {results.split} is not defined for it."],
            missing,
        )
    against = results.against(best)
    details = _reached(results, best)
    details += _compared(results, against)
    details += _how_sure(results, against)
    details += _at_equal_updates(results, best)
    details += _single_best_trial(results, best)
    details += [luck.sentence for luck in lucks(search)]
    return Answer(_headline(results, best, others, against), details, missing)


def _who(results: Results, best: str) -> str:
    """Return the strategy; or the config, where one of each is all that can be compared."""
    if results.by_tuning:
        return best
    config, groups = results.runs[best][0].config, results.runs[best][0].groups
    return f"{best}{_with_groups(groups)} at learning rate {number(float(config['lr']))}"


def _with_groups(groups: int | None) -> str:
    return "" if groups is None else f" with {unit_text(groups, 'group')}"


def _among(results: Results, others: Sequence[str]) -> str:
    every = ", ".join(results.runs) if len(results.runs) <= _FEW else f"{len(results.runs)} strategies"
    tried = len(results.search.strategies) > 1
    return f"of {every}" if others else "no other has results" if tried else "no other was tried"


def _headline(results: Results, best: str, others: Sequence[str], against: dict[str, Comparison]) -> str:
    """Say who is best, and whether that is more than chance; of strategies only where tunings were repeated."""
    who, among = _who(results, best), _among(results, others)
    ahead = [name for name, one in against.items() if _differ(results, one) and _worse(results, one) < 0]
    alike = [name for name, one in against.items() if not _differ(results, one)]
    is_best, that_of = ("is best", "") if results.by_tuning else ("is the best config", "that of ")
    if ahead:
        verb = "is" if len(ahead) == 1 else "are"
        said = f"{is_best} on validation ({among}), but on {results.split} {that_of}{_listed(ahead)} {verb} better"
    elif alike:
        said = f"{is_best} on average ({among}), but not told apart from {that_of}{_listed(alike)}"
    else:
        said = f"{is_best}{_as_far_as_known(results)} ({among})"
    if not results.by_tuning:
        return f"{who} {said}."
    won = results.search.winners.get(best)
    if won is None:
        return f"{who} {said}."
    groups = won.config.get("groups")
    count = len(groups) if isinstance(groups, list) else groups
    return f"{who} {said}. Its best config: learning rate {number(float(won.config['lr']))}{_with_groups(count)}."


def _as_far_as_known(results: Results) -> str:
    if results.confirmed:
        return ""
    return " in the search" if results.search.state == "complete" else " so far"


def _listed(several: Sequence[str]) -> str:
    return " and ".join(several) if len(several) < 3 else f"{', '.join(several[:-1])} and {several[-1]}"


def _differ(results: Results, one: Comparison) -> bool:
    """Return whether two are said to differ: strategies where they are told apart, configs where the test finds it."""
    return one.told_apart if results.tells_strategies else one.significant


def _worse(results: Results, one: Comparison) -> float:
    """Return by how much the second of a comparison is worse than the first."""
    return results.search.sign * one.difference


def _reached(results: Results, best: str) -> list[str]:
    """Say what the best reached, and over what that is a mean."""
    quality, sample = results.search.quality, Sample.of(results.values(best, results.search.quality))
    if results.by_tuning:
        trials = results.search.facts.get("trials_per_tuning")
        each = f" of {unit_text(trials, 'trial')} each" if trials else ""
        over = f"{unit_text(sample.count, 'tuning')}{each}"
        over += ", every choice trained anew on a fresh seed" if results.confirmed else ", by the values that chose"
    else:
        over = (
            unit_text(sample.count, "fresh seed") if results.confirmed else f"{unit_text(sample.count)} of the search"
        )
    return [f"{quality} on {results.split}: {sample_text(sample)} over {over}."]


def _compared(results: Results, against: dict[str, Comparison]) -> list[str]:
    """Say who is next in rank, how far off, and whom a test tells from the best."""
    if not against:
        return []
    following, one = next(iter(against.items()))
    if all(math.isnan(each.p) for each in against.values()):
        return [f"One {_unit(results)} says nothing about chance: {results.label(following)} comes next."]
    said = [f"Next is {results.label(following)}, {_apart(results, one)}."]
    told = [name for name, each in against.items() if _differ(results, each)]
    untested = [name for name, each in against.items() if math.isnan(each.p)]
    whom = "every other" if len(told) == len(against) and len(told) > 1 else _listed(told)
    how = _test(results)
    if not results.by_tuning:
        what = f"This config and that of {whom} differ" if told else "No two of these configs are told apart"
        said.append(
            f"{what} ({how}); whether the strategies do, one tuning of each cannot tell."
            if told
            else f"{what} ({how}), and one tuning of each says nothing of the strategies."
        )
    elif not results.confirmed:
        said.append("These are the numbers that chose the configs: they tell no strategies apart.")
    elif told:
        behind = all(_worse(results, against[name]) > 0 for name in told)
        side = f", which {'is' if len(told) == 1 else 'are'} worse" if behind and whom != "every other" else ""
        said.append(f"It is told apart from {whom}{side} ({how}).")
    elif lost := results.lost(one.a):
        said.append(
            f"{one.a} has no result in {unit_text(len(lost), 'replicate')}: the others may flatter it, so it is not"
            f" said to be better ({how})."
        )
    else:
        said.append(f"No strategy is told apart from it ({how}).")
    if untested:
        said.append(f"Too few results to compare with: {', '.join(untested)}.")
    return said


def _unit(results: Results) -> str:
    return "tuning" if results.by_tuning else "seed"


def _test(results: Results) -> str:
    if not results.by_tuning:
        return f"Welch's t-test over seeds, Holm-corrected, level {ALPHA:g}"
    looks = results.looks
    often = "" if looks is None else f" and up to {len(looks.sizes)} looks"
    count = len(results.comparisons())
    for_what = f"corrected for {unit_text(count, 'comparison')}{often}" if count > 1 or often else "one comparison"
    return f"t-test of the differences, paired by tuning, {for_what}, level {ALPHA:g}"


def _apart(results: Results, one: Comparison) -> str:
    """Return a difference in words: ``0.15 worse (95 % interval 0.13 to 0.17; p = 0.012)``."""
    if math.isnan(one.p):
        return f"on one {_unit(results)}"
    gap = _worse(results, one)
    ends = sorted(abs(end) if (end < 0) == (one.difference < 0) else -abs(end) for end in (one.low, one.high))
    low, high = (difference_text(one, end) for end in ends)
    size = "as good" if gap == 0 else f"{difference_text(one, abs(gap))} {'worse' if gap > 0 else 'better'}"
    return f"{size} (95 % interval {low} to {high}; {p_text(one.p)}, corrected)"


def _how_sure(results: Results, against: dict[str, Comparison]) -> list[str]:
    """Say what could have been shown, and where the luck comes from."""
    if not results.tells_strategies:
        return []
    said = []
    open_ = [one for one in against.values() if one.p >= ALPHA and one.detectable > 0]
    if open_:
        largest = max(open_, key=lambda one: one.detectable)
        size = difference_text(largest, largest.detectable)
        said.append(
            f"With so many tunings a difference of {size} would have been shown with a chance of {100 * POWER:.0f} %;"
            " a smaller one may be there."
        )
    share = variation(results).share_of_seeds
    if share is not None:
        rest = ", the rest that of what the search happened to find" if share < _ALL else ""
        said.append(f"Of the variance between tunings about {100 * share:.0f} % is that of training seeds{rest}.")
    return said


def _at_equal_updates(results: Results, best: str) -> list[str]:
    """Say what is left of the advantage if the others may take as many steps."""
    search, values = results.search, equal_updates(results)
    controlled = {run.strategy for run in search.confirmed(names.EQUAL_UPDATES)} - {best}
    values = {name: found for name, found in values.items() if name == best or name in controlled}
    if len(values) < 2 or best not in values:
        return []
    against = {
        (one.b if one.a == best else one.a): one.of(best)
        for one in results.compared(values, search.sign)
        if best in (one.a, one.b)
    }
    samples = {name: Sample.of(list(found.values())) for name, found in values.items()}
    nearest = min(against, key=lambda name: search.sign * samples[name].mean)
    one = against[nearest]
    if math.isnan(one.p):
        verdict = f"on too few {_unit(results)}s to compare"
    elif not _differ(results, one):
        verdict = "which is not told apart from it"
    else:
        verdict = "still worse" if _worse(results, one) > 0 else "which is better"
    also = [name for name, each in against.items() if name != nearest and each.p >= ALPHA]
    nor = f" Nor {'is' if len(also) == 1 else 'are'} {_listed(also)}." if also and one.p >= ALPHA else ""
    where = f" ({unit_text(one.units, 'tuning')}; {p_text(one.p)})" if results.by_tuning else f" ({p_text(one.p)})"
    return [f"Given as many updates, {nearest} reaches {sample_text(samples[nearest])}, {verdict}{where}.{nor}"]


def _single_best_trial(results: Results, best: str) -> list[str]:
    """Say why the best single trial is not the answer, where it is of another strategy."""
    search = results.search
    if not (results.confirmed and search.winners):
        return []
    lucky, trial = next(iter(search.winners.items()))
    if lucky == best:
        return []
    what = "single trial" if trial.seeds == 1 else "config of the search"
    return [
        f"The best {what} was one of {lucky} ({search.objective.metric} {number(trial.value)}), picked from"
        f" many; on fresh seeds {lucky} is not the best on validation."
    ]
