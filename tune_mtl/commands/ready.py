"""The commands before a search: what there is, data sets, and whether everything is ready."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from tune_mtl.commands.help_texts import DATA
from tune_mtl.commands.values import assignment
from tune_mtl.core.errors import UserError
from tune_mtl.core.process.loading import loading


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
    device: Annotated[
        str | None, typer.Option(help="Examine this machine's cuda, cuda:1, cpu, ... instead, and write a page.")
    ] = None,
    strategies: Annotated[str | None, typer.Option(help="With --device: which, comma-separated. Default: all.")] = None,
    minutes: Annotated[float, typer.Option(help="With --device: begin no strategy after so long.")] = 10.0,
    out: Annotated[Path | None, typer.Option(help="With --device: the page. Default: device.md here.")] = None,
) -> None:
    """Look whether all is ready for a long search, from every node; leaves nothing behind.

    Versions of Python, Ray and packages agree with those here; the storage is the same folder everywhere and can be
    written; the MLflow store answers; prepared data hold their checksums; torch sees the GPUs that Ray offers; disks
    have room. Each line is ok, a warning or a failure, with the way out. A failure gives exit code 1.

    Give the flags of the search that you are about to start; `search` makes the same checks, without checksums.

    With --device, a GPU of this machine is examined instead, without Ray: every strategy has the CPU's numbers there,
    waits as rarely as it says, repeats bit for bit with deterministic kernels; speed against a bare loop, data loading
    and memory. The page that it writes names neither machine nor user: send it.

    Example: tune-mtl doctor --address 10.0.0.1:6379 --storage /shared/runs --tracking-uri http://10.0.0.1:5000

    Example: tune-mtl doctor --device cuda --minutes 10
    """
    others = {"address": address, "storage": storage, "tracking-uri": tracking_uri, "data": data}
    if device is not None:
        _examine_device(device, strategies, minutes, out, [f"--{name}" for name, value in others.items() if value])
        return
    if strategies is not None or out is not None:
        raise UserError("--strategies and --out belong to --device: tune-mtl doctor --device cuda.")
    with loading():
        from tune_mtl.preflight.doctor import examine
        from tune_mtl.terminal.health import looking, show_checks

    with looking():
        checks = examine(
            address=address, storage=storage, tracking_uri=tracking_uri, data=None if data is None else str(data)
        )
    show_checks(checks)
    if any(check.state == "failure" for check in checks):
        raise typer.Exit(1)


def _examine_device(device: str, strategies: str | None, minutes: float, out: Path | None, others: list[str]) -> None:
    if others:
        raise UserError(f"--device examines this machine alone, without Ray: drop {', '.join(others)}.")
    page_file = out or Path("device.md")
    if page_file.exists():
        raise UserError(f"--out {page_file} is there already: remove it, or give another file.")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts: deterministic kernels want it
    with loading():
        from tune_mtl.preflight.device.examine import examine_device
        from tune_mtl.preflight.device.page import page
        from tune_mtl.terminal.health import show_device, telling

    chosen = None if strategies is None else [name.strip() for name in strategies.split(",") if name.strip()]
    with telling() as told:
        found = examine_device(device, strategies=chosen, minutes=minutes, told=told)
    page_file.write_text(page(found))
    show_device(found.facts["device"], len(found.verdicts), found.failures, list(found.left_out), str(page_file))
    if found.failures:
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
    with loading():
        from tune_mtl.terminal.examining import run_check

    given = dict(assignment(text) for text in set_ or [])
    given |= {} if data is None else {"problem_data": str(data.absolute())}
    if not run_check(problem, given):
        raise typer.Exit(1)


def check(
    strategy: Annotated[str, typer.Argument(help="Your own as package.module:Class, or a built-in strategy.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option, groups or optimizer; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Hold a strategy to the laws that every built-in one obeys, a line each. Needs no problem and no data.

    Exact resume, missing labels, no hidden waits for a GPU, declared costs and more are tried on small problems, in a
    few seconds; of what breaks a law the smallest example is shown. Exit code 1 if something broke, 0 if all held or
    do not apply, 2 if there is no such strategy. docs/strategies.md explains the laws.

    Example: tune-mtl check rules:InverseLoss --set inverse_loss_power=2
    """
    with loading():
        from tune_mtl.strategies.admission import admit
        from tune_mtl.terminal.checking import as_json as for_programs
        from tune_mtl.terminal.checking import show_laws
        from tune_mtl.testing import check_strategy

    given = dict(assignment(text) for text in set_ or [])
    name = admit(strategy)
    results = check_strategy(name, raises=False, **given)
    if as_json:
        typer.echo(json.dumps(for_programs(name, results), indent=1))
    else:
        show_laws(results)
    if any(result.state == "broke" for result in results):
        raise typer.Exit(1)


def problems() -> None:
    """List the built-in problems."""
    from tune_mtl.terminal.listing import list_problems

    list_problems()


def optimizers() -> None:
    """List the optimizers and their options, and how to bring one's own."""
    from tune_mtl.terminal.listing import list_optimizers

    list_optimizers()


def schedules() -> None:
    """List the schedules of the learning rate and their options, and how to bring one's own."""
    from tune_mtl.terminal.listing import list_schedules

    list_schedules()


def strategies() -> None:
    """List the strategies: what one mini-batch does, and their options."""
    from tune_mtl.terminal.listing import list_strategies

    list_strategies()


def spaces(
    ctx: typer.Context,
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
) -> None:
    """Print what a search with the same flags tries, as a file that its --space reads; starts nothing.

    Example: tune-mtl spaces multidigits --strategies sus,io --search batch_size=64,128 > my.yaml
    """
    from tune_mtl.experiment.planning.effective import effective_space_text

    given: dict[str, Any] = ctx.obj
    if data is not None:
        given["fixed"] = {**given.get("fixed", {}), "problem_data": str(data.absolute())}
    print(effective_space_text(problem, given), end="")  # noqa: T201 - a file, not a screen


def algorithms() -> None:
    """List who may choose configs in a search, and how to bring one's own."""
    from tune_mtl.terminal.listing import list_algorithms

    list_algorithms()
