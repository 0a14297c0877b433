"""The design of a reproduction: which problems, which searches, and what they leave out of the paper."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.prepared_set import MANIFEST, data_folder, open_prepared

FEWEST_SEEDS, MOST_SEEDS = 2, 100


@dataclass(frozen=True)
class PaperPlace:
    """A data set of the paper, and what is searched where it is not prepared.

    Attributes:
        number: The number of its table and of its figure.
        dataset: The name of the paper's data set.
        stand_in: The embedded problem that takes its place.
        tasks: The tasks of the stand-in that resemble the data set; empty: all.
    """

    number: int
    dataset: str
    stand_in: str
    tasks: tuple[str, ...] = ()


PLACES = (
    PaperPlace(1, "NYUv2", "multidigits"),
    PaperPlace(2, "Cityscapes", "multidigits", ("segment",)),
    PaperPlace(3, "CelebA", "glyphs"),
)


@dataclass(frozen=True)
class PlannedSearch:
    """One search of a reproduction.

    Attributes:
        name: Its fixed name.
        problem: The problem.
        options: The keywords of :func:`tune_mtl.search` besides.
        notes: What it leaves out of the paper, or does otherwise.
    """

    name: str
    problem: str
    options: Mapping[str, Any]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Design:
    """What a reproduction runs, and where its results go on the page.

    Attributes:
        name: The name of its folder of reports.
        command: The command that repeats it, and goes on with it.
        searches: The searches, in their order.
        places: By place of the paper the problem that is searched for it.
        notes: What is otherwise than in the paper.
    """

    name: str
    command: str
    searches: Sequence[PlannedSearch]
    places: Mapping[PaperPlace, str]
    notes: Sequence[str] = field(default=())


_QUICK: Mapping[str, Mapping[str, Any]] = {
    "multidigits": {"lr": "2e-3,5e-3,1e-2", "seeds": 5, "strategies": ("sus", "ius", "io")},
    "glyphs": {"lr": "5e-3,1e-2,2e-2", "groups": "4,40", "seeds": 4, "strategies": ("sus", "ius", "io")},
}
"""Where the best of both problems lie, by the figures of docs/reproduction.md, and enough seeds for large effects."""

_QUICK_NOTES: Mapping[str, str] = {
    "multidigits": "multidigits: learning rates 2e-3 to 1e-2 instead of 5e-4 to 2e-2; no gradnorm, pcgrad and mr.",
    "glyphs": "glyphs: learning rates 5e-3 to 2e-2 instead of 5e-4 to 5e-2; 4 and 40 groups instead of 2, 4, 8, 20 and"
    " 40; no gradnorm, pcgrad, mgda_ub and mr.",
}
_HETEROGENEOUS = frozenset({"multidigits", "nyuv2"})


def make_design(
    *, quick: bool = False, seeds: int | None = None, embedded: bool = False, data: str | Path | None = None
) -> Design:
    """Return the searches of a reproduction.

    Args:
        quick: Whether the small design is taken, which always is of the embedded problems.
        seeds: How many seeds of the grid, each of which is a tuning; default: the paper's three, or the small design's.
        embedded: Whether embedded problems are taken where the paper's data sets are prepared.
        data: The folder of prepared sets.

    Raises:
        UserError: for a number of seeds that cannot be, a folder that is not there, or a prepared set that cannot be
            read.
    """
    if seeds is not None and not (type(seeds) is int and FEWEST_SEEDS <= seeds <= MOST_SEEDS):
        raise UserError(
            f"seeds={seeds!r} must be a whole number from {FEWEST_SEEDS} to {MOST_SEEDS}: one tuning says nothing of"
            " chance."
        )
    if data is not None and (quick or embedded):
        flag = "--quick" if quick else "--embedded"
        raise UserError(f"data={data} has no use with {flag}, which takes the embedded problems: drop one of them.")
    if data is not None and not Path(data).is_dir():
        raise UserError(f"data={data} is no folder: give that of the prepared sets.")
    given = None if data is None else str(Path(data).absolute())
    places = {
        place: place.stand_in
        if quick or embedded or not is_prepared(place.dataset.lower(), given)
        else place.dataset.lower()
        for place in PLACES
    }
    prefix = "reproduce-quick" if quick else "reproduce"
    suffix = "" if seeds is None else f"-{seeds}-seeds"
    searches = [
        _search(f"{prefix}-{problem}{suffix}", problem, quick=quick, seeds=seeds, data=given)
        for problem in dict.fromkeys(places.values())
    ]
    flags = (" --quick" if quick else "") + ("" if seeds is None else f" --seeds {seeds}")
    flags += (" --embedded" if embedded else "") + ("" if data is None else f" --data {shlex.quote(str(given))}")
    return Design(f"{prefix}{suffix}", f"tune-mtl reproduce{flags}", searches, places, _notes(places, searches))


def is_prepared(name: str, data: str | None = None) -> bool:
    """Return whether the data set ``name`` is prepared; one that is there, but cannot be read, is refused.

    Raises:
        UserError: for such a one.
    """
    if not (data_folder(data) / name / MANIFEST).exists():
        return False
    open_prepared(name, data)
    return True


def _search(name: str, problem: str, *, quick: bool, seeds: int | None, data: str | None) -> PlannedSearch:
    """Return a search of the paper's space, of which every seed is a tuning, with confirmation on fresh seeds.

    Controls of equal updates are for tasks of several kinds alone, of which the claim is; with forty groups they would
    cost many times the search.
    """
    small = dict(_QUICK.get(problem, {})) if quick else {}
    count = seeds or small.pop("seeds", None) or 3
    small.pop("seeds", None)
    options: dict[str, Any] = {
        "space": "paper",
        "seeds": tuple(range(count)),
        "confirm": 1,
        "controls": count if problem in _HETEROGENEOUS else 0,
        "export": False,
        **small,
    }
    if data is not None and problem in {place.dataset.lower() for place in PLACES}:
        options["fixed"] = {"problem_data": data}
    return PlannedSearch(name, problem, options, (_QUICK_NOTES[problem],) if small else ())


def _notes(places: Mapping[PaperPlace, str], searches: Sequence[PlannedSearch]) -> list[str]:
    """Say what is otherwise than in the paper."""
    notes = [
        f"{place.dataset} (table and figure {place.number}): {problem} stands in for it"
        + (f", its {' and '.join(place.tasks)} alone." if place.tasks else ".")
        for place, problem in places.items()
        if problem == place.stand_in
    ]
    notes += [note for one in searches for note in one.notes]
    return [
        *notes,
        "The paper has one tuning of each method, reported on three seeds. Here each seed is a tuning of its own, whose"
        " choice is trained again on a fresh seed: "
        + ", ".join(f"{len(one.options['seeds'])} of {one.problem}" for one in searches)
        + ".",
        "Methods have equal epochs, as in the paper, so IUS and IO take more updates than SUS. The claim about equal"
        " updates is ours, and is asked of tasks of several kinds alone.",
        "The paper does not print its learning rates: grids are in steps of 1, 2 and 5.",
        "Choices are made by each problem's objective on validation (val/relative_loss of the embedded ones), where the"
        " paper takes the summed loss.",
    ]
