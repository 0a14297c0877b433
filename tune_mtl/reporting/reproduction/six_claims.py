"""The paper's six claims, each with one verdict: on the data for which the paper makes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tune_mtl.reporting.claims import (
    Claim,
    Findings,
    grouping_beats_none,
    grows_with_groups,
    io_best_on_heterogeneous,
    shrinks_on_homogeneous,
    survives_equal_updates,
    together,
    travels_further,
    with_needed,
)

Kind = Literal["all data", "tasks of several kinds", "tasks of one kind"]


@dataclass(frozen=True)
class _Asked:
    """A claim about each of some searches.

    Attributes:
        check: What checks it on one search.
        about: The data on which the paper makes it.
        where_it_can: Whether searches that have nothing to compare leave it to the others.
    """

    check: Callable[[Findings], Claim]
    about: Kind
    where_it_can: bool = False


_CLAIMS = (
    _Asked(travels_further, "all data"),
    _Asked(grows_with_groups, "all data", where_it_can=True),
    _Asked(io_best_on_heterogeneous, "tasks of several kinds"),
    _Asked(grouping_beats_none, "tasks of one kind"),
    _Asked(survives_equal_updates, "tasks of several kinds"),
)


def six_claims(found: Sequence[Findings]) -> list[Claim]:
    """Return the six claims; what is asked of several searches is one claim with the parts of all of them."""
    claims = []
    for asked in _CLAIMS:
        about = [one for one in found if _is_about(one, asked.about)] or found[:1]
        claims.append(_joined([(one, asked.check(one)) for one in about], where_it_can=asked.where_it_can))
    return [with_needed(claim) for claim in (*claims, shrinks_on_homogeneous(found))]


def _is_about(one: Findings, kind: Kind) -> bool:
    alike = one.search.facts.get("homogeneous")
    return kind == "all data" or alike is (kind == "tasks of one kind")


def _joined(checked: Sequence[tuple[Findings, Claim]], *, where_it_can: bool) -> Claim:
    """Return one claim of several: its parts are judged together, as those of one search are."""
    claims = [claim for _, claim in checked]
    if len(claims) == 1:
        return claims[0]
    text = claims[0].text
    numbers = "; ".join(f"{one.search.problem}: {said}" for one, claim in checked for said in claim.numbers.split("; "))
    deciding = [claim for claim in claims if claim.parts] if where_it_can else claims
    if deciding and all(claim.parts for claim in deciding):
        return replace(together(text, [part for claim in deciding for part in claim.parts]), numbers=numbers)
    refuted = any(claim.verdict == "does not hold" for claim in claims)
    return Claim(text, "does not hold" if refuted else "cannot tell", numbers)
