"""Problems by name: built in, or anyone's ``package.module:attribute``. Imports no torch by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.imports import has_module, is_reference, load

if TYPE_CHECKING:
    from tune_mtl.core.problem import Problem


@dataclass(frozen=True, kw_only=True)
class ProblemInfo:
    """What there is to know about a built-in problem without loading it."""

    name: str
    title: str
    tasks: str
    implementation: str


problems: dict[str, ProblemInfo] = {
    info.name: info
    for info in (
        ProblemInfo(
            name="multidigits",
            title="Two real handwritten digits on one canvas (embedded, no download)",
            tasks="left, right: 10 classes; sum: regression; segment: 3 classes per pixel",
            implementation="tune_mtl.problems.multidigits:MultiDigits",
        ),
        ProblemInfo(
            name="glyphs",
            title="Characters of twelve font faces, 16x16 (embedded, no download)",
            tasks="40 binary attributes: bold, serif, capital, greek, arrow, acute, ...",
            implementation="tune_mtl.problems.glyphs.problem:Glyphs",
        ),
        ProblemInfo(
            name="quadratics",
            title="Strongly convex tasks with everything known in closed form (the convergence theorem)",
            tasks="q0, q1, ...: quadratic functions with noisy gradients",
            implementation="tune_mtl.problems.quadratics:Quadratics",
        ),
        ProblemInfo(
            name="celeba",
            title="Faces, 64x64 (tune-mtl prepare celeba)",
            tasks="40 binary attributes",
            implementation="tune_mtl.problems.celeba:CelebA",
        ),
        ProblemInfo(
            name="cityscapes",
            title="Street scenes, 128x256 (tune-mtl prepare cityscapes)",
            tasks="7 binary segmentations: flat, construction, object, nature, sky, human, vehicle",
            implementation="tune_mtl.problems.cityscapes:Cityscapes",
        ),
        ProblemInfo(
            name="nyuv2",
            title="Indoor scenes, 288x384 (tune-mtl prepare nyuv2)",
            tasks="segmentation: 13 classes; depth: metres; normals: unit vectors",
            implementation="tune_mtl.problems.nyuv2:NYUv2",
        ),
    )
}


PROBLEM = "problem_"
"""Config keys that begin so are options of the problem itself."""


def load_problem(
    problem: "str | Problem", config: Mapping[str, Any] | None = None, *, directory: str | None = None
) -> "Problem":
    """Return the problem of a name, or the one given. Modules are found from ``directory`` (default: the current one).

    Args:
        problem: A built-in name, ``package.module:attribute``, or a problem.
        config: Its ``problem_...`` values are given to the class or function that makes the problem.
        directory: Where a module is looked for.

    Raises:
        UserError: for an unknown name, a module that does not import (its own error is shown), or no problem there.
    """
    from tune_mtl.core.problem import checked

    given = dict(config or {})
    if not isinstance(problem, str):
        return checked(problem, type(problem).__name__, _options(problem, given))
    if not is_reference(problem):
        if problem not in problems:
            raise UserError(
                f"unknown problem '{problem}'. {did_you_mean(problem, problems)} Your own: package.module:attribute."
            )
        problem = problems[problem].implementation
    found = load(problem, directory)
    return checked(found, f"'{problem}'", _options(found, given))


def importable(name: str) -> bool:
    """Return whether another process can have the problem of that name: built in, or in a module of its own."""
    return name in problems or (is_reference(name) and has_module(name))


def _options(problem: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a config says to the class or function that makes the problem."""
    own = getattr(problem, "own_options", ()) if isinstance(problem, type) else ()
    prefixed = {key.removeprefix(PROBLEM): value for key, value in config.items() if key.startswith(PROBLEM)}
    return {**{key: config[key] for key in own if key in config}, **prefixed}
