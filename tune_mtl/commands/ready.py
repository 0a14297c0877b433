"""The commands before a search: what there is, data sets, and whether everything is ready."""

from pathlib import Path
from typing import Annotated

import typer

from tune_mtl.commands.help_texts import DATA
from tune_mtl.commands.values import assignment


def prepare(
    dataset: Annotated[str, typer.Argument(help="celeba, cityscapes or nyuv2.")],
    source: Annotated[Path, typer.Option(help="The folder with the data set's files, as downloaded.")],
    out: Annotated[Path | None, typer.Option(help=DATA)] = None,
    workers: Annotated[int | None, typer.Option(help="Threads that decode. Default: as many as CPUs.")] = None,
    size: Annotated[str | None, typer.Option(metavar="HxW", help="Of images. Default: the paper's.")] = None,
    normals: Annotated[Path | None, typer.Option(help="nyuv2: a folder of PNGs, for the official file.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and list it.")] = False,
) -> None:
    """Prepare a data set once: decoded, resized, checked, ready to be mapped into memory by every trial.

    Interrupted? The same command goes on. Example: tune-mtl prepare celeba --source ~/celeba --out ~/prepared
    """
    from tune_mtl.prepare.datasets import open_source
    from tune_mtl.prepare.prepared_set import data_folder
    from tune_mtl.terminal.preparing import run_prepare

    folder = data_folder(None if out is None else str(out))
    run_prepare(open_source(dataset, source, size, normals), folder, workers=workers, skip_bad=skip_bad)


def doctor(
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster. Default: a local one.")] = None,
    storage: Annotated[str | None, typer.Option(help="Folder that all nodes share. Default: ray in ./runs.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store. Default: mlflow.db in ./runs.")] = None,
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
) -> None:
    """Look whether all is ready for a long search, from every node; leaves nothing behind.

    Versions of Python, Ray and packages agree with those here; the storage is the same folder everywhere and can be
    written; the MLflow store answers; prepared data hold their checksums; torch sees the GPUs that Ray offers; disks
    have room. Each line is ok, a warning or a failure, with the way out. A failure gives exit code 1.

    Give the flags of the search that you are about to start; `search` makes the same checks, without checksums.

    Example: tune-mtl doctor --address 10.0.0.1:6379 --storage /shared/runs --tracking-uri http://10.0.0.1:5000
    """
    from tune_mtl.preflight.doctor import examine
    from tune_mtl.terminal.health import looking, show_checks

    with looking():
        checks = examine(
            address=address, storage=storage, tracking_uri=tracking_uri, data=None if data is None else str(data)
        )
    show_checks(checks)
    if any(check.state == "failure" for check in checks):
        raise typer.Exit(1)


def check_problem(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A config value or option; repeatable.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
) -> None:
    """Examine one batch of a problem: everything that is wrong with it, a line each. Trains nothing.

    Data, shapes, losses, gradients at trunk and heads, and metrics are tried, in a second or two. Exit code 1 if the
    problem cannot be trained, 0 if it can, 2 if there is no such problem. `search` and `train` look first, too.

    Example: tune-mtl check-problem mine:curves
    """
    from tune_mtl.terminal.examining import run_check

    given = dict(assignment(text) for text in set_ or [])
    given |= {} if data is None else {"problem_data": str(data.absolute())}
    if not run_check(problem, given):
        raise typer.Exit(1)


def problems() -> None:
    """List the built-in problems."""
    from tune_mtl.terminal.listing import list_problems

    list_problems()


def strategies() -> None:
    """List the strategies: what one mini-batch does, and their options."""
    from tune_mtl.terminal.listing import list_strategies

    list_strategies()
