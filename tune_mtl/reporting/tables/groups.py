"""The tables about groups: how many are best, and whose luck their draw is."""

import math

from tune_mtl.reporting.groups import best_counts, lucks, share_text
from tune_mtl.reporting.tables.table import Cell, Table
from tune_mtl.results.search_data import SearchData

_SURE = 0.995


def best_count_table(search: SearchData) -> Table | None:
    """Make the table of the best number of groups with its interval; None where nobody has tried several."""
    found = best_counts(search)
    if not found:
        return None
    rows = []
    for strategy, best in found.items():
        shares = ", ".join(
            f"{count}: {'> 99' if _SURE < share < 1 else f'{100 * share:.0f}'} %"
            for count, share in best.shares.items()
        )
        rows.append([Cell(strategy), Cell(best.text), Cell(shares or "-"), Cell(best.units)])
    grid = search.settings.get("algorithm") == "grid"
    unit = "seeds" if grid else "tunings"
    how = (
        "on each seed its best whole run"
        if grid
        else "in each tuning its best trial, few as they are, with what it had reached"
    )
    notes = [
        f"Judged by {search.objective.metric} on validation: of every count, {how}.",
        f"In brackets the 95 % interval: counts outside it are told to be worse than another (t-tests paired by"
        f" {unit.removesuffix('s')}, corrected for all pairs). Resampling few {unit} makes a count look surer than"
        " it is.",
    ]
    header = ["strategy", "best number of groups", f"best when {unit} are resampled", unit]
    return Table("group-counts", "How many groups are best", header, rows, notes)


def luck_table(search: SearchData) -> Table | None:
    """Make the table of whose luck the variance between runs is; None without a factorial."""
    found = lucks(search)
    if not found:
        return None
    rows = []
    for luck in found:
        parts = luck.parts
        shares = [parts.draw, parts.seed, parts.rest] if parts is not None and parts.variance else [None] * 3
        rows.append(
            [
                Cell(luck.name),
                Cell(luck.crossed),
                *(Cell(None if part is None else share_text(part)) for part in shares),
                Cell(None if parts is None else math.sqrt(parts.variance)),
                Cell(luck.layout.seconds, decimals=0),
                Cell(", ".join(map(str, luck.ordered(search.sign))) or "-"),
            ]
        )
    metrics = " and ".join(dict.fromkeys(luck.metric for luck in found))
    lost = sum(luck.layout.lost for luck in found)
    notes = [
        f"Shares of the variance of {metrics} between runs of one config, with 95 % intervals: analysis of variance of"
        " crossed random effects, generalised confidence intervals, normal luck supposed. A negative estimate is 0.",
        "Draws: the groups_seed of each, the best mean first; --set groups_seed=NUMBER trains with that grouping.",
        *([f"{lost} runs did not end well: their draw or seed is left out."] if lost else []),
    ]
    header = ["runs of", "crossed", "draw of groups", "seed", "which suits which", "deviation", "seconds", "draws"]
    return Table("group-luck", "Whose luck is it: the draw of groups, or the seed?", header, rows, notes)
