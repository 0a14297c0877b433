"""Writing a report: the page, its tables and figures as files, and all of it attached to the search's run."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.report.answer import Answer, answer
from tune_mtl.report.claims import Claim, Findings, check_claims, claims_table
from tune_mtl.report.evidence import Evidence
from tune_mtl.report.results import Results
from tune_mtl.report.tables import Table
from tune_mtl.tracking.store import check_name, report_folder

PAGE = "index.html"
_ARTIFACTS = "report"


@dataclass(frozen=True)
class Report:
    """A report that was written.

    Attributes:
        page: The page to open.
        answers: By search.
        confirmed: Whether all of it rests on fresh seeds.
        claims: The paper's, checked.
        tables: By search, as written.
    """

    page: Path
    answers: Mapping[str, Answer]
    confirmed: bool
    claims: Sequence[Claim] = field(repr=False)
    tables: Mapping[str, Sequence[Table]] = field(repr=False)

    @property
    def answer(self) -> str:
        """In a few sentences."""
        if len(self.answers) == 1:
            return str(next(iter(self.answers.values())))
        return "\n".join(f"{name}: {said}" for name, said in self.answers.items())


def write_report(*searches: str, out: str | Path | None = None, tracking_uri: str | None = None) -> Report:
    """Write the report of one or more searches, from MLflow alone.

    Args:
        searches: Their names.
        out: The folder; default: ``reports/NAME`` in the home.
        tracking_uri: The MLflow store.

    Raises:
        UserError: if there is no such search, or the folder cannot be written.
    """
    if not searches:
        raise UserError("report needs the name of a search.")
    found = [_findings(name, tracking_uri) for name in searches]
    folder = Path(out) if out is not None else report_folder("+".join(searches)[:100])
    from tune_mtl.report.figures import draw_all
    from tune_mtl.report.page import Section, page

    sections = []
    for one in found:
        evidence, results = one.evidence, one.results
        sections.append(
            Section(
                evidence,
                answer(evidence, results),
                tables_of(one),
                draw_all(evidence, results),
                search_command(evidence),
            )
        )
    claims = check_claims(found)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections:
            place = folder if len(sections) == 1 else folder / section.evidence.name
            place.mkdir(exist_ok=True)
            _write_tables(place, section.tables)
            for drawing in section.drawings:
                for kind in ("svg", "pdf", "png"):
                    (place / f"{drawing.key}.{kind}").write_bytes(drawing.file(kind))
        _write_tables(folder, [claims_table(claims)])
        (folder / PAGE).write_text(page(sections, claims_table(claims)))
    except OSError as error:
        raise UserError(f"the report cannot be written to {folder}: {error.strerror}. Give --out.") from None
    for one in found:
        one.evidence.client.log_artifacts(one.evidence.run_id, str(folder), _ARTIFACTS)
    return Report(
        folder / PAGE,
        {section.evidence.name: section.answer for section in sections},
        all(one.results.confirmed for one in found),
        claims,
        {section.evidence.name: section.tables for section in sections},
    )


def paper_claims(*searches: str, tracking_uri: str | None = None) -> list[Claim]:
    """The paper's claims, checked on the data of one or more searches.

    Raises:
        UserError: if there is no such search.
    """
    return check_claims([_findings(name, tracking_uri) for name in searches])


def _findings(name: str, tracking_uri: str | None) -> Findings:
    evidence = Evidence.read(check_name(name), tracking_uri)
    return Findings(evidence, Results.of(evidence))


def tables_of(one: Findings) -> list[Table]:
    """All that the evidence allows, in the order of the page."""
    from tune_mtl.report import tabulated

    evidence, results = one.evidence, one.results
    if not results.runs:
        return [tabulated.search_table(evidence)]
    made = [
        tabulated.quality_table(results),
        tabulated.losses_table(results),
        tabulated.updates_table(results),
        tabulated.path_table(evidence),
        tabulated.best_path_table(results),
        tabulated.cost_table(results),
        tabulated.search_table(evidence),
    ]
    return [table for table in made if table is not None]


def _write_tables(folder: Path, tables: Sequence[Table]) -> None:
    for table in tables:
        for kind, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv())):
            (folder / f"{table.key}.{kind}").write_text(text)


_PRIVATE = ("name", "address", "storage", "tracking_uri", "report")
"""What a command for others leaves out: places, and what may hold a password."""


def search_command(evidence: Evidence) -> str:
    """The command line that repeats a search; places are left out."""
    words = ["tune-mtl", "search", evidence.problem]
    for key, value in evidence.settings.items():
        if key in (*_PRIVATE, "problem") or value in (None, "", [], {}) or value == _DEFAULTS.get(key):
            continue
        if key == "fixed":
            for name, setting in value.items():
                words += ["--set", f"{name}={_text(setting)}"]
        else:
            words += [f"--{key.replace('_', '-')}", _text(value)]
    return shlex.join(words)


_DEFAULTS: dict[str, Any] = {
    "space": "wide", "algorithm": "optuna", "scheduler": "asha", "balance": "strategy", "seed": 0, "cpus_per_trial": 1,
    "gpus_per_trial": 0, "budget": "epochs", "confirm": 0,
}  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
