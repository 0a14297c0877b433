"""Writing the page of a reproduction from MLflow alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_mtl.core.errors import UserError
from tune_mtl.reporting.claims import Claim, Findings
from tune_mtl.reporting.reproduction.places import Place, searched
from tune_mtl.reporting.reproduction.six_claims import six_claims
from tune_mtl.reporting.results import Results
from tune_mtl.results.search_data import SearchData

_TABLE_OF_GROUPS = 3


@dataclass(frozen=True)
class Written:
    """The page that was written, and the claims on it."""

    page: Path
    claims: Sequence[Claim]


def findings(name: str, tracking_uri: str | None = None) -> Findings:
    """Return a search as the page reads it.

    Raises:
        UserError: if there is no such search.
    """
    search = SearchData.read(name, tracking_uri)
    return Findings(search, Results.of(search))


def write_page(places: Sequence[Place], notes: Sequence[str], command: str, file: Path) -> Written:
    """Write the page of ``places`` into ``file``.

    Raises:
        UserError: if it cannot be written.
    """
    from tune_mtl.reporting.figures.style import looks
    from tune_mtl.reporting.reproduction.figures import groups_figure, losses_figure
    from tune_mtl.reporting.reproduction.page import Shown, page
    from tune_mtl.reporting.reproduction.tables import distances_table, groups_table, results_table

    found = searched(places)
    styles = looks(["sus", "ius", "io", *(name for one in found for name in one.search.strategies)])
    shown = [
        Shown(place, groups_table(place), groups_figure(place, styles))
        if place.number == _TABLE_OF_GROUPS
        else Shown(place, results_table(place), losses_figure(place, styles))
        for place in places
    ]
    claims = six_claims(found)
    whole = page(claims, shown, distances_table(places), notes, command)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(whole)
    except OSError as error:
        raise UserError(f"the page cannot be written to {file}: {error.strerror}. Give another --out.") from None
    return Written(file, claims)
