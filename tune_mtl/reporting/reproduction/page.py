"""The page of a reproduction: one file, verdicts first, then the paper's tables and figures."""

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tune_mtl.reporting.claims import Claim, claims_table
from tune_mtl.reporting.figures.style import Drawing
from tune_mtl.reporting.page import STYLE, claims_html, figure_html
from tune_mtl.reporting.reproduction.places import Place, searched
from tune_mtl.reporting.tables.table import Table


@dataclass(frozen=True)
class Shown:
    """What the page shows of one place of the paper."""

    place: Place
    table: Table
    figure: Drawing | None


def page(claims: Sequence[Claim], shown: Sequence[Shown], distances: Table, notes: Sequence[str], command: str) -> str:
    """Return the whole document.

    Args:
        claims: The six claims.
        shown: Tables 1 to 3 with their figures.
        distances: Table 4.
        notes: What was left out, and what is otherwise than in the paper.
        command: The command that made it.
    """
    found = searched([one.place for one in shown])
    problems = " and ".join(one.search.problem for one in found)
    said = _summary(claims)
    listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    sections = "".join(
        f"<h2>{html.escape(one.place.title)}</h2>\n{one.table.html('paper-')}"
        + (f"<div class=figures>{figure_html(one.figure, 'paper')}</div>\n" if one.figure is not None else "")
        for one in shown
    )
    reports = "".join(
        f"<li>{html.escape(one.search.name)}: {len(one.search.trials)} trials,"
        f" {len(one.search.reruns)} confirming runs, {html.escape(one.results.count_text)} of each strategy;"
        f" <code>tune-mtl report {html.escape(one.search.name)}</code> has all of it</li>"
        for one in found
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>The paper's comparison - tune-mtl</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>The paper's comparison, on {html.escape(problems)}</h1>\n"
        "<p class=soft>Alternate and independent optimisation of tasks: tables, figures and claims of the paper with"
        " the numbers of this machine. No number is the paper's.</p></header>\n"
        f"<section class=answer aria-label='The verdicts'><p>{html.escape(said)}</p></section>\n"
        f"{claims_html(claims_table(claims))}"
        f"<h2>What is otherwise than in the paper</h2>\n<ul>{listed}</ul>\n"
        f"{sections}<h2>Covered distance</h2>\n{distances.html('paper-')}"
        f"<h2>The searches</h2>\n<ul>{reports}</ul>\n"
        f"<p>The command that repeats it, and goes on where it was stopped:</p>\n<pre>{html.escape(command)}</pre>\n"
        "</main>\n<footer class=soft>Written by tune-mtl from its MLflow runs.</footer>\n</body>\n</html>\n"
    )


def _summary(claims: Sequence[Claim]) -> str:
    """Return in a sentence how many claims ended in which way."""
    counts = Counter(claim.verdict for claim in claims)
    hold, fail, left = counts["holds"], counts["does not hold"], counts["cannot tell"]
    return (
        f"Of the paper's {len(claims)} claims, {hold} hold{'s' if hold == 1 else ''} on these data,"
        f" {fail} do{'es' if fail == 1 else ''} not, and {left} cannot be told."
    )
