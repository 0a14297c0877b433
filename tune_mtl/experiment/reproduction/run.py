"""A reproduction: its searches one after the other, each where it was left, then the page."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.core.process.signals import Interrupted
from tune_mtl.experiment.confirm import confirm
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.reproduction.design import Design, PlannedSearch, make_design
from tune_mtl.experiment.reproduction.estimate import Estimate, estimate
from tune_mtl.experiment.reproduction.progress import Step, next_step
from tune_mtl.experiment.search import resume, search
from tune_mtl.ray_tune.admission import check_address
from tune_mtl.reporting.claims import Claim
from tune_mtl.reporting.reproduction.places import Place
from tune_mtl.reporting.reproduction.write import findings, write_page
from tune_mtl.tracking.store import reachable, report_folder

PAGE = "index.html"


@dataclass(frozen=True)
class Reproduction:
    """How a reproduction ended.

    Attributes:
        complete: Whether all of its searches have ended, confirmation included; else the same call goes on.
        searches: Their names.
        command: The command that goes on, or repeats it.
        page: The page; None if it is not complete.
        claims: The six claims with their verdicts; none if it is not complete.
    """

    complete: bool
    searches: Sequence[str]
    command: str
    page: Path | None = None
    claims: Sequence[Claim] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, for programs."""
        return {
            "complete": self.complete,
            "searches": list(self.searches),
            "command": self.command,
            "page": None if self.page is None else str(self.page),
            "claims": [
                {"claim": one.text, "verdict": one.verdict, "numbers": one.numbers.split("; "), "needed": one.needed}
                for one in self.claims
            ],
        }


def reproduce(
    *,
    quick: bool = False,
    seeds: int | None = None,
    embedded: bool = False,
    data: str | Path | None = None,
    out: str | Path | None = None,
    announce: Callable[[Sequence[Estimate]], None] | None = None,
    **resources: Any,
) -> Reproduction:
    """Run the paper's whole comparison and write its tables, figures and claims with our numbers on one page.

    The ``paper`` searches of a problem with tasks of several kinds and of one with forty tasks of one kind. Each has a
    fixed name: what is finished is not run again, what was interrupted goes on. Prepared data sets of the paper are
    taken instead of the embedded problems.

    Args:
        quick: Whether the design is small enough for half an hour on two quiet cores.
        seeds: How many seeds, each of which is a tuning; default: the paper's three, or what ``quick`` has.
        embedded: Whether embedded problems are taken though the paper's data sets are prepared.
        data: The folder of prepared sets; default: ``TUNE_MTL_DATA``, or ``./data``.
        out: The page; default: ``reports/reproduce/index.html`` in the home.
        announce: Is told what everything will take, before anything starts.
        **resources: Of :func:`tune_mtl.search`: ``address``, ``storage``, ``tracking_uri``, ``concurrency``,
            ``cpus_per_trial``, ``gpus_per_trial``.

    Raises:
        UserError: for what cannot be, before any trial starts; for a search of one of the names with other settings.
    """
    design = make_design(quick=quick, seeds=seeds, embedded=embedded, data=data)
    given = {key: value for key, value in resources.items() if value is not None}
    plans, steps = _looked_at(design, given)
    uri = next(iter(plans.values())).tracking_uri
    if announce is not None:
        announce(_estimates(plans, steps))
    known = [one.name for one in design.searches]
    command = command_of(design, given, out)
    try:
        for one in design.searches:
            if not _carried_out(one, steps[one.name], given):
                return Reproduction(False, known, command)
    except KeyboardInterrupt:
        raise Interrupted(command) from None
    places = places_of(design, uri)
    file = Path(out) if out is not None else report_folder(design.name) / PAGE
    written = write_page(places, design.notes, command, file)
    return Reproduction(True, known, command, written.page.absolute(), written.claims)


def command_of(design: Design, resources: Mapping[str, Any], out: str | Path | None = None) -> str:
    """Return the command that goes on: with the same store, storage and cluster, else it would begin anew."""
    places = {**resources, **({} if out is None else {"out": out})}
    flags = [word for key, value in places.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return without_secrets(" ".join([design.command, *map(shlex.quote, flags)]))


def foreseen(
    *,
    quick: bool = False,
    seeds: int | None = None,
    embedded: bool = False,
    data: str | Path | None = None,
    **resources: Any,
) -> list[Estimate]:
    """Return what every search of :func:`reproduce` with the same arguments would take; nothing is started."""
    design = make_design(quick=quick, seeds=seeds, embedded=embedded, data=data)
    return _estimates(*_looked_at(design, {key: value for key, value in resources.items() if value is not None}))


def _looked_at(design: Design, resources: Mapping[str, Any]) -> tuple[dict[str, Plan], dict[str, Step]]:
    """Return the plan of every search by name, and what has to be done for it: nothing that cannot be is started."""
    check_address(resources.get("address"))
    plans = {one.name: plan_search(one.problem, **_options(one, resources)) for one in design.searches}
    reachable(next(iter(plans.values())).tracking_uri, writing=True)
    return plans, {name: next_step(plan) for name, plan in plans.items()}


def _estimates(plans: Mapping[str, Plan], steps: Mapping[str, Step]) -> list[Estimate]:
    return [estimate(plan, steps[name].value, finished=steps[name] is Step.DONE) for name, plan in plans.items()]


def places_of(design: Design, tracking_uri: str) -> list[Place]:
    """Return the places of the paper, each with the search that fills it."""
    found = {one.problem: findings(one.name, tracking_uri) for one in design.searches}
    return [
        Place(place.number, place.dataset, problem, found[problem], place.tasks if problem == place.stand_in else ())
        for place, problem in design.places.items()
    ]


def _carried_out(one: PlannedSearch, step: Step, resources: Mapping[str, Any]) -> bool:
    """Do for a search what has to be done; returns whether it is finished now."""
    places = {key: resources[key] for key in ("address", "storage", "tracking_uri") if key in resources}
    if step is Step.START:
        return search(one.problem, **_options(one, resources)).complete
    if step is Step.RESUME:
        return resume(one.name, **places).complete
    if step is Step.CONFIRM:
        return confirm(one.name, seeds=one.options["confirm"], **places) is not None
    return True


def _options(one: PlannedSearch, resources: Mapping[str, Any]) -> Any:
    return {"name": one.name, **one.options, **resources}
