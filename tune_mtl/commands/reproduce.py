"""The command that runs the paper's whole comparison."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_mtl.commands.help_texts import DATA
from tune_mtl.core.process.loading import loading
from tune_mtl.core.process.signals import exit_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_mtl.experiment.reproduction.estimate import Estimate


def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller design, for half an hour on two quiet cores; always embedded.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Seeds, each a tuning of every method. Default: 3; 5 and 4 with --quick.")
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="The embedded problems, also where the paper's data sets are prepared.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
    out: Annotated[Path | None, typer.Option(help="The page. Default: reports/reproduce/index.html in ./runs.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would run, and how long that takes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print page and verdicts for programs.")] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; default: a local one.")] = None,
    storage: Annotated[str | None, typer.Option(help="A folder that all nodes share; default: in the home.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Trials at once; default: as many as fit.")] = None,
    cpus_per_trial: Annotated[float | None, typer.Option(help="CPUs of a trial. Default: 1.")] = None,
    gpus_per_trial: Annotated[float | None, typer.Option(help="GPUs of a trial. Default: 0.")] = None,
) -> None:
    """Run the paper's whole comparison: its tables, figures and claims with your numbers, on one page.

    The paper's grids on multidigits and glyphs, or on its own data sets where they are prepared. Interrupted? The same
    command goes on; what is finished is not run again.

    Example: tune-mtl reproduce --quick
    """
    from tune_mtl.experiment.reproduction.design import make_design

    resources: dict[str, Any] = {
        "address": address, "storage": storage, "tracking_uri": tracking_uri, "concurrency": concurrency,
        "cpus_per_trial": cpus_per_trial, "gpus_per_trial": gpus_per_trial,
    }  # fmt: skip
    asked: dict[str, Any] = {"quick": quick, "seeds": seeds, "embedded": embedded, "data": data}
    make_design(**asked)  # what cannot be is said before torch and Ray are loaded
    if dry_run:
        with loading():
            from tune_mtl.experiment.reproduction.run import foreseen

        _announce(foreseen(**asked, **resources))
        typer.echo("Nothing was started.")
        return
    with loading():
        from tune_mtl.experiment.reproduction.run import reproduce as run
        from tune_mtl.terminal import searches as screen

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        done = run(**asked, out=out, announce=_announce, **resources)
    if as_json:
        typer.echo(json.dumps(done.plain(), indent=1))
    if not done.complete or done.page is None:
        typer.echo(f"interrupted. To go on: {done.command}", err=True)
        raise typer.Exit(exit_code())
    if not as_json:
        screen.show_reproduction(done.claims, done.page)


def _announce(found: "Sequence[Estimate]") -> None:
    from tune_mtl.experiment.reproduction.estimate import total_text
    from tune_mtl.terminal import searches as screen

    screen.show_estimates([one.row for one in found], total_text(found))
