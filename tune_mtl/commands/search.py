"""The commands that run trials on Ray: a search, its resumption, its growth, its confirmation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tune_mtl.commands.help_texts import DATA, STRATEGIES
from tune_mtl.commands.values import assignment, number
from tune_mtl.core.process.stopping import exit_code, told_how_to_go_on

_NOT_SETTINGS = {"problem", "set_", "strategies", "lr", "groups", "data", "dry_run"}


def search(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    name: Annotated[str | None, typer.Option(help="Of the search, unique. Default: problem and time.")] = None,
    space: Annotated[str | None, typer.Option(help="wide (default) or paper (a grid on 3 seeds).")] = None,
    strategies: Annotated[str | None, typer.Option(help=f"all, or comma-separated: {STRATEGIES}.")] = None,
    lr: Annotated[str | None, typer.Option(metavar="LOW:HIGH", help="Learning rates: a range, or A,B,C.")] = None,
    groups: Annotated[str | None, typer.Option(metavar="A,B", help="Group counts, for strategies with groups.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any config value or option; repeatable.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="optuna (default), random or grid.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="asha (default) stops the hopeless early; none.")] = None,
    balance: Annotated[str | None, typer.Option(help="strategy (default): equal trials; none: searched too.")] = None,
    samples: Annotated[str | None, typer.Option(metavar="NUMBER", help="In all. Default: 4 per tuning.")] = None,
    replicates: Annotated[
        str | None,
        typer.Option(
            metavar="R|auto", help="Tunings of each strategy; several tell strategies apart. Default 8, or 1."
        ),
    ] = None,
    max_replicates: Annotated[str | None, typer.Option(metavar="NUMBER", help="With auto. Default 16.")] = None,
    max_epochs: Annotated[str | None, typer.Option(metavar="NUMBER", help="Per trial.")] = None,
    budget: Annotated[str | None, typer.Option(help="Unit of a trial: epochs (default), updates, seconds.")] = None,
    max_updates: Annotated[str | None, typer.Option(metavar="NUMBER", help="Per trial, with --budget updates.")] = None,
    max_seconds: Annotated[str | None, typer.Option(metavar="NUMBER", help="Per trial, with --budget seconds.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="NUMBER", help="Of trials and searcher. Default 0.")] = None,
    metric: Annotated[str | None, typer.Option(help="The objective: name[:min|max].")] = None,
    time_budget: Annotated[str | None, typer.Option(metavar="SECONDS", help="Then trials end soon.")] = None,
    concurrency: Annotated[str | None, typer.Option(metavar="NUMBER", help="Trials at once.")] = None,
    cpus_per_trial: Annotated[str | None, typer.Option(metavar="NUMBER", help="Also its threads. Default 1.")] = None,
    gpus_per_trial: Annotated[str | None, typer.Option(metavar="NUMBER", help="Fractions share a GPU.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster. Default: a local one.")] = None,
    storage: Annotated[str | None, typer.Option(help="A folder that all nodes share.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store. Default: mlflow.db in ./runs.")] = None,
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
    warm_start: Annotated[str | None, typer.Option(metavar="NAME", help="Learn first from an earlier search.")] = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="SEEDS", help="Fresh seeds per tuning. Default 1, or 0.")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the page at the end.")] = True,
    export: Annotated[
        bool | None, typer.Option(help="Give the winner's run its MLflow model. Default: yes.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, with time and disk.")] = False,
) -> None:
    """Search the best strategy, group count and learning rate; every trial is tracked in MLflow.

    Strategies are tuned several times, and compared by what the tunings reach on fresh seeds.

    Example: tune-mtl search multidigits --strategies sus,ius,io
    """
    flags = dict(locals())
    given = {key: number(value) for key, value in flags.items() if key not in _NOT_SETTINGS and value is not None}
    given |= {key: value for key, value in (("lr", lr), ("groups", groups)) if value is not None}
    if strategies is not None:
        given["strategies"] = tuple(part.strip() for part in strategies.split(",") if part.strip())
    given["fixed"] = dict(assignment(text) for text in set_ or [])
    given["fixed"] |= {} if data is None else {"problem_data": str(data.absolute())}

    from tune_mtl.terminal import searches as screen

    if dry_run:  # without Ray and MLflow, which take longer to load than the plan to make
        from tune_mtl.experiment.planning.make import plan_search
        from tune_mtl.experiment.planning.summary import summarise

        said = summarise(plan_search(problem, **given))
        screen.show_plan(said.title, said.header, said.rows, said.text)
        return
    if address is not None:  # before torch is loaded: this is known in milliseconds
        from tune_mtl.ray_tune.admission import check_address

        check_address(address)
    from tune_mtl.experiment.search import search as run

    _finish(run(problem, **given))


def resume(
    name: Annotated[str, typer.Argument(help="Of the search to go on with.")],
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Go on with an interrupted search: finished trials stay, running ones continue from their checkpoints."""
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
    from tune_mtl.experiment.search import extend as run

    _finish(run(name, samples=samples, address=address, storage=storage, tracking_uri=tracking_uri))


def confirm(
    name: Annotated[str, typer.Argument(help="Of a finished search.")],
    seeds: Annotated[int | None, typer.Option(help="Fresh seeds per tuning. Default: 1, or 3 for one tuning.")] = None,
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Train the winners of a search in full on fresh seeds and test them; the report is written anew.

    Interrupted? The same command goes on. What is there already is not run again.
    """
    from tune_mtl.experiment.confirm import confirm as run
    from tune_mtl.terminal import searches as screen

    written = run(name, seeds=seeds, address=address, storage=storage, tracking_uri=tracking_uri)
    if written is None:
        typer.echo(f"interrupted. To go on: tune-mtl confirm {name}{f' --seeds {seeds}' if seeds else ''}", err=True)
        raise typer.Exit(exit_code())
    screen.show_report(written)


def _finish(result: Any) -> None:
    from tune_mtl.terminal import searches as screen

    with told_how_to_go_on(lambda: f"tune-mtl {'best' if result.complete else 'resume'} {result.name}"):
        screen.show_result(result)
    if not result.complete:
        raise typer.Exit(exit_code())
