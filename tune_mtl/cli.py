"""The command line: parses, calls the API, prints. Loads torch only for commands that train."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.exceptions

from tune_mtl.core.errors import UserError
from tune_mtl.core.secrets import without_secrets
from tune_mtl.strategies.optimizers import optimizers
from tune_mtl.strategies.registry import registry, with_groups
from tune_mtl.terminal.values import assignment, new_folder, number, read_config

app = typer.Typer(
    name="tune-mtl",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Which multi-task optimisation strategy, how many task groups, at which learning rate - for your problem?",
)

_STRATEGIES = ", ".join(name for name in registry if not name.startswith("jd_")) + ", jd_... (see tune-mtl strategies)"
_DATA = "The folder of prepared sets. Default: TUNE_MTL_DATA, or ./data."
_NOT_CONFIG = {"problem", "config", "set_", "data", "out", "resume"}
_NOT_SETTINGS = {"problem", "set_", "strategies", "lr", "groups", "data", "dry_run"}


@app.command()
def train(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    strategy: Annotated[str | None, typer.Option(help=f"One of {_STRATEGIES}.")] = None,
    lr: Annotated[str | None, typer.Option(metavar="NUMBER", help="Learning rate.")] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help=f"Number of task groups ({', '.join(with_groups())}); default: one per task."
        ),
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="NUMBER", help="Of everything random. Default 0.")] = None,
    epochs: Annotated[str | None, typer.Option(metavar="NUMBER", help="Passes over the training set.")] = None,
    optimizer: Annotated[str | None, typer.Option(help=f"One of {', '.join(optimizers)}. Default adam.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Learning rate over mini-batches: constant, cosine, step.")
    ] = None,
    batch_size: Annotated[str | None, typer.Option(metavar="NUMBER", help="Samples per mini-batch.")] = None,
    eval_batch_size: Annotated[str | None, typer.Option(metavar="NUMBER", help="Samples per evaluation batch.")] = None,
    evaluate_every: Annotated[str | None, typer.Option(metavar="NUMBER", help="Epochs between evaluations.")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="CPU threads; they change the last bits of results.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What decides the best epoch: name[:min|max].")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    channels_last: Annotated[bool | None, typer.Option(help="Memory format of images.")] = None,
    compile: Annotated[bool | None, typer.Option(help="torch.compile the trunk.")] = None,  # noqa: A002
    deterministic: Annotated[bool | None, typer.Option(help="Exact repetition on CUDA too, slower.")] = None,
    config: Annotated[Path | None, typer.Option(help="JSON or YAML file of config values (or a result.json).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any config value or option; repeatable.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help=_DATA)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: a new one in ./runs/train.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, exactly.")] = False,
) -> None:
    """Train one config in this process; an interrupted run goes on exactly with --resume.

    Example: tune-mtl train multidigits --strategy io --lr 3e-3
    """
    flags = dict(locals())
    given = {
        **(read_config(config) if config else {}),
        **dict(assignment(text) for text in set_ or []),
        **{name: number(value) for name, value in flags.items() if name not in _NOT_CONFIG and value is not None},
        **({} if data is None else {"problem_data": str(data.absolute())}),
    }
    if resume and out is None:
        raise UserError("--resume needs --out DIR, the folder of the run to go on with.")
    folder = out or new_folder(problem, given)

    from tune_mtl.terminal.training import TrainingScreen
    from tune_mtl.training.trial import train as run

    screen = TrainingScreen()
    try:
        with screen:
            result = run(problem, given, out=folder, resume=resume, on_evaluation=screen.show)
    except KeyboardInterrupt:
        again = [*sys.argv[1:], *([] if out else ["--out", str(folder)]), *([] if resume else ["--resume"])]
        typer.echo(f"stopped. To go on exactly where it was:\n  tune-mtl {shlex.join(again)}", err=True)
        raise typer.Exit(130) from None
    screen.summarise(result, folder)


@app.command()
def prepare(
    dataset: Annotated[str, typer.Argument(help="celeba, cityscapes or nyuv2.")],
    source: Annotated[Path, typer.Option(help="The folder with the data set's files, as downloaded.")],
    out: Annotated[Path | None, typer.Option(help=_DATA)] = None,
    workers: Annotated[int | None, typer.Option(help="Threads that decode. Default: as many as CPUs.")] = None,
    size: Annotated[str | None, typer.Option(metavar="HxW", help="Of images. Default: the paper's.")] = None,
    normals: Annotated[Path | None, typer.Option(help="nyuv2: a folder of PNGs, for the official file.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and list it.")] = False,
) -> None:
    """Prepare a data set once: decoded, resized, checked, ready to be mapped into memory by every trial.

    Interrupted? The same command goes on. Example: tune-mtl prepare celeba --source ~/celeba --out ~/prepared
    """
    from tune_mtl.core.prepared import data_folder
    from tune_mtl.prepare.datasets import open_source
    from tune_mtl.terminal.preparing import run_prepare

    folder = data_folder(None if out is None else str(out))
    run_prepare(open_source(dataset, source, size, normals), folder, workers=workers, skip_bad=skip_bad)


@app.command()
def doctor(
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster. Default: a local one.")] = None,
    storage: Annotated[str | None, typer.Option(help="Folder that all nodes share. Default: ray in ./runs.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store. Default: mlflow.db in ./runs.")] = None,
    data: Annotated[Path | None, typer.Option(help=_DATA)] = None,
) -> None:
    """Look whether all is ready for a long search, from every node; leaves nothing behind.

    Versions of Python, Ray and packages agree with those here; the storage is the same folder everywhere and can be
    written; the MLflow store answers; prepared data hold their checksums; torch sees the GPUs that Ray offers; disks
    have room. Each line is ok, a warning or a failure, with the way out. A failure gives exit code 1.

    Give the flags of the search that you are about to start; `search` makes the same checks, without checksums.

    Example: tune-mtl doctor --address 10.0.0.1:6379 --storage /shared/runs --tracking-uri http://10.0.0.1:5000
    """
    from tune_mtl.terminal.doctor import run_doctor

    healthy = run_doctor(
        address=address, storage=storage, tracking_uri=tracking_uri, data=None if data is None else str(data)
    )
    if not healthy:
        raise typer.Exit(1)


@app.command()
def problems() -> None:
    """List the built-in problems."""
    from tune_mtl.terminal.listing import list_problems

    list_problems()


@app.command()
def strategies() -> None:
    """List the strategies: what one mini-batch does, and their options."""
    from tune_mtl.terminal.listing import list_strategies

    list_strategies()


@app.command()
def search(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    name: Annotated[str | None, typer.Option(help="Of the search, unique. Default: problem and time.")] = None,
    space: Annotated[str | None, typer.Option(help="wide (default) or paper (a grid on 3 seeds).")] = None,
    strategies: Annotated[str | None, typer.Option(help=f"Comma-separated: {_STRATEGIES}.")] = None,
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
    data: Annotated[Path | None, typer.Option(help=_DATA)] = None,
    warm_start: Annotated[str | None, typer.Option(metavar="NAME", help="Learn first from an earlier search.")] = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="SEEDS", help="Fresh seeds per tuning. Default 1, or 0.")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the page at the end.")] = True,
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

    from tune_mtl.terminal import searching as screen

    if dry_run:
        from tune_mtl.search import plan_search

        screen.show_plan(plan_search(problem, **given))
        return
    from tune_mtl.search import search as run

    _finish(run(problem, **given))


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="Of the search to go on with.")],
    address: Annotated[str | None, typer.Option(help="Of another Ray cluster than before.")] = None,
    storage: Annotated[str | None, typer.Option(help="Where its folder is now, if it was moved.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Go on with an interrupted search: finished trials stay, running ones continue from their checkpoints."""
    from tune_mtl.search import resume as run

    _finish(run(name, address=address, storage=storage, tracking_uri=tracking_uri))


@app.command()
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
    from tune_mtl.search import extend as run

    _finish(run(name, samples=samples, address=address, storage=storage, tracking_uri=tracking_uri))


def _finish(result: Any) -> None:
    from tune_mtl.terminal import searching as screen

    screen.show_result(result)
    if not result.complete:
        raise typer.Exit(130)


@app.command()
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
    from tune_mtl.confirm import confirm as run
    from tune_mtl.terminal import searching as screen

    written = run(name, seeds=seeds, address=address, storage=storage, tracking_uri=tracking_uri)
    if written is None:
        typer.echo(f"interrupted. To go on: tune-mtl confirm {name}{f' --seeds {seeds}' if seeds else ''}", err=True)
        raise typer.Exit(130)
    screen.show_report(written)


@app.command()
def report(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Of one or more searches.")],
    out: Annotated[Path | None, typer.Option(help="Folder. Default: reports/NAME in ./runs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict for programs; write nothing.")] = False,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Write the report of a search: one page, with its tables and figures as files beside it."""
    from tune_mtl.report.verdict import verdict
    from tune_mtl.report.write import write_report
    from tune_mtl.terminal import searching as screen

    if as_json:
        found = [verdict(name, tracking_uri=tracking_uri) for name in names]
        typer.echo(json.dumps(found[0] if len(found) == 1 else found, indent=1))
        return
    screen.show_report(write_report(*names, out=out, tracking_uri=tracking_uri))


@app.command()
def claims(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Of one or more searches.")],
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Check the paper's claims on a search: holds, does not hold, or cannot tell, with the numbers."""
    from tune_mtl.report.write import paper_claims
    from tune_mtl.terminal import searching as screen

    screen.show_claims(paper_claims(*names, tracking_uri=tracking_uri))


@app.command()
def best(
    name: Annotated[str, typer.Argument(help="Of the search.")],
    strategy: Annotated[str | None, typer.Option(help="The best of this strategy alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    recompute: Annotated[bool, typer.Option("--recompute", help="Look at all trials again.")] = False,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Print the best config of a search and the command that repeats it exactly."""
    from tune_mtl.best import best as find

    found = find(name, strategy=strategy, tracking_uri=tracking_uri, recompute=recompute)
    if as_json:
        content = {"config": found.config, "metrics": found.metrics, "run_id": found.run_id, "trial_id": found.trial_id}
        typer.echo(
            json.dumps({**content, "outcome": found.outcome, "value": found.value, "seeds": found.seeds}, indent=1)
        )
        return
    from tune_mtl.terminal import searching as screen

    screen.show_best(name, found)


@app.command("list")
def list_searches(tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None) -> None:
    """List the searches of the store: state, trials, best."""
    from tune_mtl.terminal import searching as screen

    screen.show_searches(tracking_uri)


@app.command()
def rm(
    name: Annotated[str, typer.Argument(help="Of the search to remove.")],
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Remove a search: its runs in MLflow and its folder."""
    from tune_mtl.searching.manage import remove

    removed = remove(name, tracking_uri)
    typer.echo(f"removed search '{name}': {removed} runs and its folder.")


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="On this machine.")] = 5000,
    host: Annotated[str, typer.Option(help="Who may connect; the default is this machine alone.")] = "127.0.0.1",
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Start the MLflow UI on the store, until Ctrl-C."""
    from tune_mtl.searching.manage import serve

    raise typer.Exit(serve(host, port, tracking_uri))


def main() -> NoReturn:
    """Run the command line: a mistake of the user's is one line on stderr and exit code 2."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        code = _fail(" ".join(without_secrets(str(error)).split()))
    except typer.exceptions.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        code = _fail(" ".join(message.split()))
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    typer.echo(f"error: {message}", err=True)
    return 2


if __name__ == "__main__":
    main()
