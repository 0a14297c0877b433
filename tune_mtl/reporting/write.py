"""Writing a report: the page, its tables and figures as files, and all of it attached to the search's run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import UserError
from tune_mtl.reporting.answer import Answer, answer
from tune_mtl.reporting.claims import Claim, Findings, check_claims, claims_table
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.search_command import search_command
from tune_mtl.reporting.tables.table import Table
from tune_mtl.reporting.tradeoffs import find_trade_offs, plain, trade_offs_part
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking.pages.prepare import keep_answer
from tune_mtl.tracking.store import check_name, reachable, report_folder
from tune_mtl.tracking.store import tracking_uri as store_uri

if TYPE_CHECKING:
    from tune_mtl.reporting.page import Section

PAGE = "index.html"
_ARTIFACTS, _JOINT = "report", "report-of-several"


@dataclass(frozen=True)
class Report:
    """A report that was written.

    Attributes:
        page: The page to open.
        answers: The answers by search.
        confirmed: Whether all of it rests on fresh seeds.
        claims: The paper's, checked.
        tables: The tables by search, as written.
        trade_offs: By search what strategies do to each task, as in ``verdict(name)["trade_offs"]``.
    """

    page: Path
    answers: Mapping[str, Answer]
    confirmed: bool
    claims: Sequence[Claim] = field(repr=False)
    tables: Mapping[str, Sequence[Table]] = field(repr=False)
    trade_offs: Mapping[str, Mapping[str, Any]] = field(repr=False, default_factory=dict)

    @property
    def answer(self) -> str:
        """The answer in a few sentences."""
        if len(self.answers) == 1:
            return str(next(iter(self.answers.values())))
        return "\n".join(f"{name}: {said}" for name, said in self.answers.items())


def write_report(
    *searches: str,
    out: str | Path | None = None,
    tracking_uri: str | None = None,
    reference: str | None = None,
    front: Sequence[str] | None = None,
) -> Report:
    """Write the report of one or more searches, from MLflow alone.

    Args:
        searches: Their names.
        out: The folder; default: ``reports/NAME`` in the home.
        tracking_uri: The MLflow store.
        reference: The strategy against which changes of tasks are measured; default: ``stl``, else ``sus``.
        front: Two or three tasks whose Pareto front is drawn pair by pair, besides that of all tasks.

    Raises:
        UserError: if there is no such search, reference or task, or the folder cannot be written.
    """
    if not searches:
        raise UserError("report needs the name of a search.")
    searches = tuple(dict.fromkeys(searches))
    reachable(store_uri(tracking_uri), writing=True)
    found = [_findings(name, tracking_uri) for name in searches]
    compared = {one.search.name: find_trade_offs(one.results, reference, front) for one in found}
    folder = Path(out) if out is not None else report_folder(_folder_name(searches))
    from tune_mtl.reporting.figures.diagnosis import diagnosis_part
    from tune_mtl.reporting.figures.plots import draw_all
    from tune_mtl.reporting.figures.style import looks
    from tune_mtl.reporting.page import Section

    styles = looks(strategy for one in found for strategy in one.search.strategies)
    sections = []
    for one in found:
        search, results = one.search, one.results
        part = trade_offs_part(compared[search.name], styles)
        sections.append(
            Section(
                search,
                answer(results),
                tables_of(one),
                draw_all(results, styles),
                search_command(search),
                tuple(one for one in (part, diagnosis_part(results, styles)) if one is not None),
            )
        )
    claims = check_claims(found)
    try:
        written = _write_files(folder, sections, claims)
    except OSError as error:
        other = "another " if out is not None else ""
        raise UserError(f"the report cannot be written to {folder}: {error.strerror}. Give {other}--out.") from None
    for one in found:
        for path in written:
            place = Path(_ARTIFACTS if len(found) == 1 else _JOINT) / path.parent.relative_to(folder)
            one.search.client.log_artifact(one.search.run_id, str(path), str(place))
    if len(found) == 1:
        (one,), said = found, sections[0].answer
        told = [said.headline, *said.details, *(f"- {text}" for text in said.missing)]
        keep_answer(one.search.client, one.search.run_id, told, report=str((folder / PAGE).absolute()))
    return Report(
        folder / PAGE,
        {section.search.name: section.answer for section in sections},
        all(one.results.confirmed for one in found),
        claims,
        {section.search.name: _tables_on(section) for section in sections},
        {name: plain(one) for name, one in compared.items()},
    )


def paper_claims(*searches: str, tracking_uri: str | None = None) -> list[Claim]:
    """Check the paper's claims on the data of one or more searches.

    Raises:
        UserError: if there is no such search.
    """
    return check_claims([_findings(name, tracking_uri) for name in dict.fromkeys(searches)])


def _findings(name: str, tracking_uri: str | None) -> Findings:
    search = SearchData.read(check_name(name), tracking_uri)
    return Findings(search, Results.of(search))


def tables_of(one: Findings) -> list[Table]:
    """Make all tables that the data allow, in the order of the page."""
    from tune_mtl.reporting.tables import contents as tabulated
    from tune_mtl.reporting.tables import groups as grouped

    search, results = one.search, one.results
    if not results.runs:
        return [tabulated.search_table(search)]
    made = [
        tabulated.quality_table(results),
        tabulated.tasks_table(results),
        tabulated.losses_table(results),
        tabulated.updates_table(results),
        tabulated.path_table(results),
        tabulated.best_path_table(results),
        tabulated.cost_table(results),
        tabulated.tunings_table(results),
        grouped.best_count_table(search),
        grouped.luck_table(search),
        tabulated.search_table(search),
    ]
    return [table for table in made if table is not None]


def _write_files(folder: Path, sections: "Sequence[Section]", claims: Sequence[Claim]) -> list[Path]:
    """Write all that a report consists of; returns what was written, and nothing else that may lie there."""
    from tune_mtl.reporting.page import page

    contents: dict[Path, bytes] = {}
    for section in sections:
        place = folder if len(sections) == 1 else folder / section.search.name
        contents |= _tables(place, _tables_on(section))
        for drawing in (*section.drawings, *(one for part in section.parts for one in part.every_drawing)):
            for kind in ("svg", "pdf", "png"):
                contents[place / f"{drawing.key}.{kind}"] = drawing.file(kind)
    contents |= _tables(folder, [claims_table(claims)])
    contents[folder / PAGE] = page(sections, claims_table(claims)).encode()
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(contents)


def _tables_on(section: "Section") -> list[Table]:
    return [*section.tables, *(table for part in section.parts for table in part.every_table)]


def _tables(folder: Path, tables: Sequence[Table]) -> dict[Path, bytes]:
    return {
        folder / f"{table.key}.{kind}": text.encode()
        for table in tables
        for kind, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv()))
    }


def _folder_name(searches: Sequence[str]) -> str:
    """Return the name of a report's folder; of several searches, one that no other set of them has."""
    joined = "+".join(searches)
    return joined if len(joined) <= 100 else f"{joined[:80]}+{hashlib.sha256(joined.encode()).hexdigest()[:8]}"
