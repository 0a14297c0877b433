"""The commands that run trials on Ray: a search, its resumption, its growth, its confirmation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tune_mtl.commands.help_texts import DATA
from tune_mtl.commands.values import number
from tune_mtl.core.process.loading import loading
from tune_mtl.core.process.signals import exit_code, told_how_to_go_on


def search(
    ctx: typer.Context,
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, with time and disk.")] = False,
) -> None:
    """Search the best strategy, group count and learning rate; every trial is tracked in MLflow.

    Strategies are tuned several times, and compared by what the tunings reach on fresh seeds.

    Example: tune-mtl search multidigits --strategies sus,ius,io
    """
    given: dict[str, Any] = ctx.obj
    if data is not None:
        given["fixed"] = {**given.get("fixed", {}), "problem_data": str(data.absolute())}

    from tune_mtl.terminal import searches as screen

    if dry_run:  # without Ray and MLflow, which take longer to load than the plan to make
        with loading():
            from tune_mtl.experiment.planning.make import plan_search
            from tune_mtl.experiment.planning.summary import summarise

        said = summarise(plan_search(problem, **given))
        screen.show_plan(said.title, said.header, said.rows, said.text)
        return
    if given.get("address") is not None:  # before torch is loaded: this is known in milliseconds
        from tune_mtl.ray_tune.admission import check_address

        check_address(given["address"])
    with loading():
        from tune_mtl.experiment.search import search as run

    _finish(run(problem, **given))


def resume(
    name: Annotated[str, typer.Argument(help="Of the search to go on with.")],
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Go on with an interrupted search: finished trials stay, running ones continue from their checkpoints."""
    with loading():
        from tune_mtl.experiment.search import resume as run

    _finish(run(name, address=address, storage=storage, tracking_uri=tracking_uri))


def extend(
    name: Annotated[str, typer.Argument(help="Of a finished search.")],
    samples: Annotated[int, typer.Option(help="How many trials more.")],
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Grow a finished search: the searcher goes on with what it has learnt, the rungs with what they hold.

    Example: tune-mtl extend NAME --samples 24
    """
    with loading():
        from tune_mtl.experiment.search import extend as run

    _finish(run(name, samples=samples, address=address, storage=storage, tracking_uri=tracking_uri))


def confirm(
    name: Annotated[str, typer.Argument(help="Of a finished search.")],
    seeds: Annotated[int | None, typer.Option(help="Fresh seeds per tuning. Default: 1, or 3 for one tuning.")] = None,
    controls: Annotated[
        str | None,
        typer.Option(
            metavar="TUNINGS|auto|all", help="In how many tunings controls are trained. Default: the search's."
        ),
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Train the winners of a search in full on fresh seeds and test them; the report is written anew.

    Interrupted? The same command goes on. What is there already is not run again.
    """
    with loading():
        from tune_mtl.experiment.confirm import confirm as run
        from tune_mtl.experiment.confirm import way_on
        from tune_mtl.terminal import searches as screen

    asked: Any = None if controls is None else number(controls)
    written = run(name, seeds=seeds, controls=asked, address=address, storage=storage, tracking_uri=tracking_uri)
    if written is None:
        typer.echo(f"interrupted. To go on: {way_on(name, seeds, asked)}", err=True)
        raise typer.Exit(exit_code())
    screen.show_report(written)


def factorial(
    name: Annotated[str, typer.Argument(help="Of a finished search.")],
    draws: Annotated[int, typer.Option(help="Different groupings; as many as there are, if fewer.")] = 4,
    seeds: Annotated[int, typer.Option(help="Seeds, each with every draw.")] = 4,
    strategies: Annotated[
        str | None, typer.Option(metavar="A,B", help="Of these. Default: all with groups and a winner.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="A,B", help="Group counts. Default: that of each strategy's best config.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Cross draws of task groups with seeds: how much of the luck is whose? The report is written anew.

    Trains the best config of each strategy with groups in full on every pair, as runs that never count in the ranking.
    Interrupted? The same command goes on. A larger one keeps the runs that are there.

    Example: tune-mtl factorial NAME --draws 6 --seeds 4
    """
    with loading():
        from search_spaces.texts import parse_numbers
        from tune_mtl.experiment.factorial import factorial as run
        from tune_mtl.experiment.factorial import way_on
        from tune_mtl.terminal import searches as screen

    whose = None if strategies is None else [part.strip() for part in strategies.split(",")]
    counts = None if groups is None else [int(count) for count in parse_numbers(groups, log=False).points()]
    asked: dict[str, Any] = {"draws": draws, "seeds": seeds, "strategies": whose, "groups": counts}
    written = run(name, **asked, address=address, storage=storage, tracking_uri=tracking_uri)
    if written is None:
        typer.echo(f"interrupted. To go on: {way_on(name, **asked)}", err=True)
        raise typer.Exit(exit_code())
    screen.show_report(written)


def _finish(result: Any) -> None:
    from tune_mtl.terminal import searches as screen

    with told_how_to_go_on(lambda: f"tune-mtl {'best' if result.complete else 'resume'} {result.name}"):
        screen.show_result(result)
    if not result.complete:
        raise typer.Exit(exit_code())
