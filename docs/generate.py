"""Writes the tables of `strategies.md` and the README (from registry and laws), of `statistics.md` (from the paper) and
of `glyphs.md` (from the records of its attributes, and its data).

`python docs/generate.py`; a test sees that it was done.
"""

import csv
import math
import re
from pathlib import Path

from tune_mtl.core.options import ShareOfRun, Tunable, TunableCount
from tune_mtl.problems.glyphs.attributes import ATTRIBUTES
from tune_mtl.problems.glyphs.problem import Glyphs
from tune_mtl.reporting.statistics.significance import Sample, Standing, average_ranks, standings
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.registry import registry
from tune_mtl.testing import LAWS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "docs/strategies.md", "docs/statistics.md", "docs/glyphs.md")]
PRINTED = Path(__file__).with_name("paper_tables.csv")
SEEDS = 3
"""On which the paper reports."""
HEADER = (
    "strategy",
    "one mini-batch is",
    "forward",
    "backward",
    "states",
    "memory besides",
    "waits",
    "options [searched in `wide`]",
    "reference",
)


def options(info: StrategyInfo) -> str:
    """Names and defaults; in brackets what the wide space searches."""
    shares = info.options.marked(ShareOfRun)
    searched = {**info.options.marked(Tunable), **info.options.marked(TunableCount)}
    shown = []
    for name, field in info.options.model_fields.items():
        default = f"{shares[name].share:.0%} of a trial's mini-batches" if name in shares else f"{field.default!r}"
        wide = "0.1 to 10 each" if name == "weights" else searched.get(name)
        shown.append(f"`{info.name}_{name}` = {default}" + (f" [{wide}]" if wide else ""))
    return ", ".join([*(["`groups`"] if info.has_groups else []), *shown]) or "-"


def fact(info: StrategyInfo, name: str) -> str:
    """A cost, and what it is where an option says otherwise."""
    others = [f"{v} with `{info.name}_{o.option}={o.value}`" for o in info.variants if (v := getattr(o, name))]
    return "; ".join([getattr(info, name), *others])


def row(info: StrategyInfo) -> str:
    cells = (
        f"**`{info.name}`** {info.title}",
        info.rule,
        info.forwards,
        fact(info, "backwards"),
        info.states,
        fact(info, "memory"),
        info.waits,
        options(info),
        info.reference,
    )
    return "| " + " | ".join(cells) + " |"


def table(infos: list[StrategyInfo]) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER), *map(row, infos)]
    return "\n".join(lines)


def overview() -> str:
    """The README's table; TorchJD's family is a sentence there."""
    lines = ["| strategy | title | one mini-batch is | groups |", "|---|---|---|---|"]
    for info in registry.values():
        if info.family != "torchjd":
            lines.append(f"| `{info.name}` | {info.title} | {info.rule} | {'yes' if info.has_groups else 'no'} |")
    return "\n".join(lines)


def differing() -> str:
    found = [f"- `{info.name}`: {info.differs_from_sus}." for info in registry.values() if info.differs_from_sus]
    return "\n".join(found)


def attributes() -> str:
    """What each attribute of `glyphs` is, and how many images of each split have it."""
    splits = {name: Glyphs().data(name).everything.targets for name in ("train", "val", "test")}
    lines = ["| task | yes where the picture shows | train | val | test |", "|---|---|---:|---:|---:|"]
    for one in ATTRIBUTES:
        shares = [f"{float(targets[one.name].mean()):.1%}" for targets in splits.values()]
        lines.append(f"| `{one.name}` | {one.shown} | {' | '.join(shares)} |")
    return "\n".join(lines)


def weighing() -> str:
    found = [f"- `{info.name}`: {info.weighs_otherwise}." for info in registry.values() if info.weighs_otherwise]
    return "\n".join(found)


def laws() -> str:
    lines = ["| law | what it says |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{law.name}` | {law.sentence} |" for law in LAWS.values())])


def printed() -> dict[str, dict[str, dict[str, tuple[str, Sample]]]]:
    """Table, metric, row: which way is better, and what the paper prints."""
    found: dict[str, dict[str, dict[str, tuple[str, Sample]]]] = {}
    for line in csv.DictReader(PRINTED.open()):
        sample = Sample(float(line["mean"]), float(line["deviation"]), SEEDS)
        found.setdefault(line["table"], {}).setdefault(line["metric"], {})[line["row"]] = (line["mode"], sample)
    return found


def our_ranks() -> str:
    """Our ranks from the paper's printed means and deviations, beside its own."""
    theirs = {(line["table"], line["row"]): line["printed rank"] for line in csv.DictReader(PRINTED.open())}
    pages = []
    for title, metrics in printed().items():
        rows = list(next(iter(metrics.values())))
        ranked = [row for row in rows if theirs[title, row]]
        everyone = {name: standings_of(found, rows) for name, found in metrics.items()}
        among_ranked = [standings_of(found, ranked) for found in metrics.values()]
        ours, ours_among = average_ranks(list(everyone.values())), average_ranks(among_ranked)
        header = ["row", "printed", "ours", *(["ours, all rows"] if len(ranked) < len(rows) else []), *metrics]
        lines = [f"### {title}", "", "| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        for row in rows:
            cells = [row, theirs[title, row] or "-", f"{ours_among[row]:.2f}" if row in ours_among else "-"]
            cells += [f"{ours[row]:.2f}"] if len(ranked) < len(rows) else []
            for name, places in everyone.items():
                place, sample = places[row], metrics[name][row][1]
                tested = "best" if place.best else f"p = {_p(place.p_value)}"
                shown = f"{sample.mean:g} ± {sample.deviation:g} ({tested})"
                cells.append(f"**{shown}**" if place.equivalent else shown)
            lines.append("| " + " | ".join(cells) + " |")
        pages.append("\n".join(lines))
    return "\n\n".join(pages)


def standings_of(found: dict[str, tuple[str, Sample]], rows: list[str]) -> dict[str, Standing]:
    mode = next(iter(found.values()))[0]
    return standings({row: found[row][1] for row in rows}, mode)


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"


def filled(page: str) -> str:
    """The page with everything between its markers made anew."""
    parts = {
        "strategies at a glance": overview,
        "every strategy": lambda: table(list(registry.values())),
        "not sus": differing,
        "weigh otherwise": weighing,
        "laws": laws,
        "ranks": our_ranks,
        "attributes": attributes,
    }
    for name, made in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        page = re.sub(f"{begin}.*?{end}", lambda _, m=made, b=begin, e=end: f"{b}\n{m()}\n{e}", page, flags=re.S)
    return page


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
