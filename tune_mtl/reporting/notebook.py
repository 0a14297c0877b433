"""A search in a notebook's cell: the answer, the table, a picture."""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path

from tune_mtl.core.html import paragraph, table
from tune_mtl.reporting.write import Report
from tune_mtl.results.best_trial import BestTrial

_PICTURE = "learning-rates.png"


def search_cell(
    name: str, winners: Mapping[str, BestTrial], counts: Mapping[str, int], report: Report | None, *, complete: bool
) -> str:
    """Return a search's outcome as HTML."""
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no trials"
    parts = [paragraph(f"search '{name}' {'complete' if complete else 'interrupted'}: {said}")]
    if not complete:
        parts.append(paragraph(f"tune_mtl.resume({name!r}) goes on where it stopped."))
    if winners:
        parts.append(_ranking(winners))
    if report is not None:
        for answer in report.answers.values():
            parts += [paragraph(answer.headline, bold=True), *map(paragraph, answer.details)]
        parts += [
            _picture(report.page.parent / _PICTURE),
            f"<p>the whole report: <code>{escape(str(report.page))}</code></p>",
        ]
    return "".join(parts)


def _ranking(winners: Mapping[str, BestTrial]) -> str:
    """Return the best config of each strategy, the best first."""
    metric = next(iter(winners.values())).objective.metric
    searched = list(dict.fromkeys(["lr", "groups", *(key for best in winners.values() for key in best.searched)]))
    rows = [
        (
            strategy,
            best.value,
            *(best.config.get(key) for key in searched),
            best.metrics.get("best/epoch"),
            best.trial_id,
        )
        for strategy, best in winners.items()
    ]
    return table(("strategy", f"best {metric}", *searched, "epoch", "trial"), rows)


def _picture(path: Path) -> str:
    """Return a picture that is part of the page; nothing where there is none."""
    if not path.exists():
        return ""
    content = base64.b64encode(path.read_bytes()).decode()
    return (
        f'<img alt="Quality against the learning rate" style="max-width: 640px" src="data:image/png;base64,{content}">'
    )
