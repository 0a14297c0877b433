"""The verdict for programs: the design, the winner and all comparisons, with the numbers that the page prints."""

import math
from typing import Any

from tune_mtl.reporting.answer import answer
from tune_mtl.reporting.groups import group_findings_of
from tune_mtl.reporting.results import Results, variation
from tune_mtl.reporting.statistics.comparison import Comparison
from tune_mtl.reporting.statistics.significance import ALPHA
from tune_mtl.reporting.tradeoffs import find_trade_offs, plain
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking.store import check_name


def verdict(name: str, *, tracking_uri: str | None = None, reference: str | None = None) -> dict[str, Any]:
    """Return what search ``name`` tells about its strategies, as plain values.

    ``told_apart`` is true of two strategies whose tunings were repeated and judged on fresh seeds, and nowhere else.

    Returns:
        ``design``: what was repeated and how it is tested; ``winner``: the strategy that is best on validation, or
        None; ``groups``: of strategies with groups, the best count and whose luck the variance between runs is, see
        :func:`tune_mtl.group_findings`; ``comparisons``: all pairs on the objective's metric, ``difference`` being
        ``b`` minus ``a``, with its interval and p-value, both corrected (None where there is no test);
        ``trade_offs``: what each strategy does to each task, against ``reference`` (default: ``stl``, else ``sus``);
        ``answer``: in sentences; ``warnings``.

    Raises:
        UserError: if there is no such search, or the reference has no results.
    """
    search = SearchData.read(check_name(name), tracking_uri)
    return verdict_of(Results.of(search), reference)


def verdict_of(results: Results, reference: str | None = None) -> dict[str, Any]:
    """Return the verdict of a search that was read."""
    search = results.search
    said = answer(results)
    looks = results.looks
    settings = search.settings
    return {
        "search": search.name,
        "design": {
            "replicates": results.count if results.by_tuning else 1,
            "unit": "strategy" if results.by_tuning else "config",
            "alpha": ALPHA,
            "test": "paired t" if results.by_tuning else "Welch",
            "correction": "Shaffer" if results.by_tuning else "Holm",
            "looks": None if looks is None else list(looks.sizes),
            "trials_per_tuning": search.facts.get("trials_per_tuning"),
            "seeds_per_choice": settings.get("confirm") if results.confirmed else 0,
            "confirmed": results.confirmed,
            "metric": search.quality,
            "mode": search.objective.mode,
            "split": results.split,
        },
        "winner": next(iter(results.runs), None),
        "values": {name: results.units(name, search.quality) for name in results.runs},
        "comparisons": [_plain(one) for one in results.comparisons()],
        "share_of_seeds": variation(results).share_of_seeds if results.tells_strategies else None,
        "trade_offs": plain(find_trade_offs(results, reference)),
        "groups": group_findings_of(search).plain(),
        "answer": str(said),
        "warnings": list(said.missing),
    }


def _plain(one: Comparison) -> dict[str, Any]:
    numbers = {"difference": one.difference, "low": one.low, "high": one.high, "p": one.p}
    return {
        "a": one.a,
        "b": one.b,
        **{key: value if math.isfinite(value) else None for key, value in numbers.items()},
        "told_apart": one.told_apart,
        "replicates": one.units,
        "detectable": one.detectable if math.isfinite(one.detectable) else None,
    }
