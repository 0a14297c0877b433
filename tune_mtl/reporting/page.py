"""One self-contained page: no network, light and dark, on a phone and in print."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.answer import Answer
from tune_mtl.reporting.figures.style import Drawing
from tune_mtl.reporting.part import Part
from tune_mtl.reporting.ranked_by import ranked_by
from tune_mtl.reporting.tables.number_format import number
from tune_mtl.reporting.tables.table import Table
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking import names

_SHOWN = 6
"""The number of lines about what is missing that are shown at once."""

_TESTS_SHOWN = 8
"""The number of comparisons of a claim up to which they are all shown."""

STYLE = Path(__file__).with_name("page.css").read_text()


@dataclass(frozen=True)
class Section:
    """What a page says of one search."""

    search: SearchData
    answer: Answer
    tables: Sequence[Table]
    drawings: Sequence[Drawing]
    command: str
    parts: Sequence[Part] = ()


def page(sections: Sequence[Section], claims: Table | None) -> str:
    """Return the whole document."""
    searches = ", ".join(section.search.name for section in sections)
    several = len(sections) > 1
    body = "".join(_section(section, several=several) for section in sections)
    title = f"<h1>{html.escape(searches)}</h1>\n" if several else ""
    about_claims = "" if claims is None else claims_html(claims)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(searches)} - tune-mtl</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n{title}{body}{about_claims}</main>\n"
        "<footer class=soft>Written by tune-mtl from its MLflow runs. Tables and figures are beside this page as CSV,"
        " LaTeX, Markdown, PDF, SVG and PNG.</footer>\n</body>\n</html>\n"
    )


def claims_html(table: Table) -> str:
    """Return the claims as a list: their numbers are too long for a table's cells."""
    items = "".join(
        f"<li><p><strong class={verdict.text.replace(' ', '-')}>{html.escape(verdict.text)}</strong>"
        f" {html.escape(claim.text)}</p>"
        f"{_claim_numbers(numbers.text.split('; '))}</li>\n"
        for claim, verdict, numbers in table.rows
    )
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.notes)
    return f"<h2 id=claims>{html.escape(table.title)}</h2>\n<ul class=claims>{items}</ul>{notes}"


def _claim_numbers(said: Sequence[str]) -> str:
    """Return the numbers of a claim as a list; of many tests as one that is folded away, all else above it."""
    tests = [one for one in said if "(p " in one]
    if len(tests) <= _TESTS_SHOWN:
        return _list_of(said)
    rest = _list_of([one for one in said if one not in tests])
    return f"{rest}<details><summary>{len(tests)} comparisons</summary>{_list_of(tests)}</details>"


def _list_of(said: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(one)}</li>' for one in said)}</ul>" if said else ""


def _section(section: Section, *, several: bool) -> str:
    search, said = section.search, section.answer
    strategies = ", ".join(search.strategies) or "no strategy yet"
    problem = search.problem or "this problem"
    question = f"Which optimisation strategy, how many task groups, at which learning rate, for {problem}?"
    better = "lower" if search.objective.mode == "min" else "higher"
    judged = f"judged by {search.objective.metric} ({better} is better)"
    details = "".join(f"<p>{html.escape(text)}</p>" for text in said.details)
    tunings = f" ({len(search.replicates)} tunings of each)" if search.replicated else ""
    tables = "".join(table.html(f"{search.name}-" if several else "") for table in section.tables)
    figures = "".join(figure_html(drawing, search.name) for drawing in section.drawings)
    top, below = ("h2", "h3") if several else ("h1", "h2")
    return (
        f"<header><{top}>{html.escape(question)}</{top}>\n"
        f"<p class=soft>Search {html.escape(search.name)}: {len(search.trials)} trials of"
        f" {html.escape(strategies)}{tunings}, {html.escape(judged)}.</p>"
        "</header>\n<section class=answer aria-label='The answer'>"
        f"<p>{html.escape(said.headline)}</p>{details}</section>\n"
        f"{_missing(said.missing)}"
        f"<{below}>Results</{below}>\n{tables or '<p>No results yet.</p>'}"
        + "".join(_part(part, search.name, below, several=several) for part in section.parts)
        + f"<{below}>Figures</{below}>\n"
        + (f"<div class=figures>{figures}</div>" if figures else "<p>Nothing to draw yet: no trial has ended well.</p>")
        + f"<{below}>How it was done</{below}>\n{_method(section)}"
    )


def _part(part: Part, search: str, heading: str, *, several: bool) -> str:
    """Return a part with a heading of its own; what is folded away opens with a click, and in print it stays away."""
    said = "".join(f"<p>{html.escape(text)}</p>" for text in part.sentences)
    prefix = f"{search}-" if several else ""
    tables = "".join(table.html(prefix) for table in part.tables)
    figures = "".join(figure_html(drawing, search) for drawing in part.drawings)
    folded = "".join(
        one.html(prefix) if isinstance(one, Table) else f"<div class=figures>{figure_html(one, search)}</div>"
        for one in part.folded
    )
    return (
        f"<{heading}>{html.escape(part.title)}</{heading}>\n{said}{tables}"
        + (f"<div class=figures>{figures}</div>\n" if figures else "")
        + (f"<details><summary>More of it: {len(part.folded)}</summary>{folded}</details>\n" if folded else "")
    )


def _missing(found: Sequence[str]) -> str:
    """Return what is missing, the first of it at once: results should not be far below the answer."""
    if not found:
        return ""
    items = [f"<li>{html.escape(text)}</li>" for text in found]
    first, more = "".join(items[:_SHOWN]), "".join(items[_SHOWN:])
    rest = f"<details><summary>{len(items) - _SHOWN} more</summary><ul>{more}</ul></details>" if more else ""
    return (
        "<section class=missing aria-label='What is missing'><p><strong>What is missing</strong></p>"
        f"<ul>{first}</ul>{rest}</section>\n"
    )


def figure_html(drawing: Drawing, search: str) -> str:
    """Return a figure inline, so that it takes the page's colours; ids are made unique within the page."""
    mark = f"{search}-{drawing.key}-"
    svg = (
        drawing.inline()
        .replace('id="', f'id="{mark}')
        .replace("url(#", f"url(#{mark}")
        .replace('href="#', f'href="#{mark}')
    )
    label = html.escape(drawing.alternative, quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    note = f"<p class=note>{html.escape(drawing.note)}</p>" if drawing.note else ""
    return f"<figure><figcaption>{html.escape(drawing.title)}</figcaption>{svg}{note}</figure>\n"


def _method(section: Section) -> str:
    search = section.search
    facts = search.facts
    samples = facts.get("samples", {})
    outcomes: dict[str, int] = {}
    for run in search.trials:
        outcomes[run.outcome] = outcomes.get(run.outcome, 0) + 1
    rows = {
        **_brought(search),
        "Design": _design(search),
        "Budget of a trial": _budget(search),
        "Outcomes": ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(outcomes.items()))
        or "none yet",
        "Confirmation": _confirmation(search),
        "Tasks": ", ".join(search.tasks) or "unknown",
        "Samples": ", ".join(f"{count} {split}" for split, count in samples.items() if count) or "unknown",
        "Selection": _selection(search),
        "Ranking": ranked_by(search),
        "Versions": ", ".join(
            f"{key} {search.tags[f'tune_mtl.{key}']}"
            for key in ("tune_mtl", "torch", "ray", "python")
            if f"tune_mtl.{key}" in search.tags
        )
        or "unknown",
        "Device": search.tags.get("tune_mtl.device", "unknown"),
        "Data": f"fingerprint {search.tags['tune_mtl.data']}" if "tune_mtl.data" in search.tags else "unknown",
    }
    listed = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in rows.items())
    return f"<dl>{listed}</dl>\n<p>The command that repeats it:</p>\n<pre>{html.escape(section.command)}</pre>\n"


def _brought(search: SearchData) -> dict[str, str]:
    """Say what the strategies are that are not built in, where there are any."""
    found = search.facts.get("contestants", {}).items()
    told = "; ".join(f"{name} is {about['title']} ({about['found']}): {about['rule']}" for name, about in found)
    return {**({"Own strategies": told} if told else {}), **_parts(search)}


def _parts(search: SearchData) -> dict[str, str]:
    """Say which optimizers and schedules trials have, with the options that all have, where a search has kept it."""
    found: dict[str, str] = {}
    for part, known in search.facts.get("parts", {}).items():
        told = " or ".join(name if origin is None else f"{name} ({origin})" for name, origin in known.items())
        fixed = search.settings.get("fixed", {}).items()
        own = [f"{key}={value}" for key, value in fixed if key.startswith(tuple(f"{name}_" for name in known))]
        found[str(part).capitalize()] = ", ".join([told, *own])
    return found


def _selection(search: SearchData) -> str:
    if search.facts.get("protocol") == "paper":
        return "epochs and configs on the official evaluation split, as in the paper"
    return "epochs and configs by validation alone; test once per confirming run"


_SCHEDULERS = {
    "asha": "ASHA stops the hopeless early",
    "thaw": "trials are paused, and the next epochs go to the one that promises most",
}


def _budget(search: SearchData) -> str:
    budget, settings = search.facts.get("budget"), search.settings
    if not budget:
        return "unknown"
    unit = "epochs" if budget["counts"] == "epoch" else budget["counts"]
    stopped = _SCHEDULERS.get(settings.get("scheduler", "asha"), "nobody is stopped early")
    fair = (
        "equal trials for every strategy"
        if settings.get("balance", "strategy") == "strategy"
        else "strategy is searched too"
    )
    if settings.get("algorithm") == "grid":
        fair = "every point of it" if settings.get("samples") is None else f"its first {settings['samples']} trials"
    return f"{number(budget['length'])} {unit}; {stopped}; {settings.get('algorithm', 'optuna')}, {fair}"


_WHY = {
    names.CONFIRM: "of the best configs",
    names.EQUAL_UPDATES: "with as many updates as the one that takes most",
    names.COMMON_PATH: "at the common learning rate, for quality and paths",
}


def _confirmation(search: SearchData) -> str:
    whole = [run for run in search.reruns if run.outcome == Outcome.COMPLETED]
    seeds = sorted({int(run.config["seed"]) for run in whole})
    if not seeds:
        return "none"
    counts = {why: sum(run.role == role for run in whole) for role, why in _WHY.items()}
    parts = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    which = f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"
    return f"whole runs on {which}, which the search never saw: {parts}"


def _design(search: SearchData) -> str:
    """Say what was repeated, and how."""
    count = len(search.replicates)
    if count < 2:
        return "each strategy was tuned once: configs are compared, not strategies"
    trials = search.facts.get("trials_per_tuning")
    each = f" of {trials} trials" if trials else ""
    looks = search.facts.get("looks")
    grown = f"; judged after {', '.join(map(str, looks))} of them, until all was decided" if looks else ""
    how = "the grid on another seed" if search.settings.get("algorithm") == "grid" else "other draws and another seed"
    return f"{count} tunings{each} of every strategy, each with {how}, the same for all strategies{grown}"
