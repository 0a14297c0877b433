"""The command that trains one config, without Ray."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tune_mtl.commands.help_texts import DATA, OPTIMIZERS, SCHEDULES, STRATEGIES
from tune_mtl.commands.values import assignment, new_folder, number, read_config
from tune_mtl.core.errors import UserError
from tune_mtl.core.process.loading import loading
from tune_mtl.core.process.signals import exit_code, heeding_sigterm
from tune_mtl.strategies.registry import with_groups

_NOT_CONFIG = {"problem", "config", "set_", "data", "out", "resume", "diagnose"}


def train(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or your own as package.module:attribute.")],
    strategy: Annotated[str | None, typer.Option(help=f"One of {STRATEGIES}.")] = None,
    lr: Annotated[str | None, typer.Option(metavar="NUMBER", help="Learning rate.")] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help=f"Number of task groups ({', '.join(with_groups())}); default: one per task."
        ),
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="NUMBER", help="Of everything random. Default 0.")] = None,
    epochs: Annotated[str | None, typer.Option(metavar="NUMBER", help="Passes over the training set.")] = None,
    optimizer: Annotated[str | None, typer.Option(help=f"One of {OPTIMIZERS}. Default adam.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help=f"Learning rate over mini-batches: {SCHEDULES}. Default constant.")
    ] = None,
    batch_size: Annotated[str | None, typer.Option(metavar="NUMBER", help="Samples per mini-batch.")] = None,
    eval_batch_size: Annotated[str | None, typer.Option(metavar="NUMBER", help="Samples per evaluation batch.")] = None,
    evaluate_every: Annotated[str | None, typer.Option(metavar="NUMBER", help="Epochs between evaluations.")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="CPU threads; they change the last bits of results.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What decides the best epoch: name[:min|max].")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16.")] = None,
    channels_last: Annotated[bool | None, typer.Option(help="Memory format of images.")] = None,
    compile: Annotated[bool | None, typer.Option(help="torch.compile the trunk.")] = None,  # noqa: A002
    deterministic: Annotated[bool | None, typer.Option(help="Exact repetition on CUDA too, slower.")] = None,
    diagnose: Annotated[
        bool,
        typer.Option("--diagnose", help="Look at the tasks' gradients now and then; nothing else changes."),
    ] = False,
    diagnose_every: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Epochs between two looks. Default: 1, of forty tasks 3.")
    ] = None,
    diagnose_samples: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Validation samples of a look. Default: few enough to be cheap."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="JSON or YAML file of config values (or a result.json).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any config value or option; repeatable.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
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

    with loading():
        from tune_mtl.terminal.training import TrainingScreen
        from tune_mtl.training.trial import train as run

    screen = TrainingScreen()
    try:
        with screen, heeding_sigterm():
            looks = diagnose or diagnose_samples is not None
            result = run(problem, given, out=folder, resume=resume, diagnose=looks, on_evaluation=screen.show)
    except KeyboardInterrupt:
        again = [*sys.argv[1:], *([] if out else ["--out", str(folder)]), *([] if resume else ["--resume"])]
        typer.echo(f"stopped. To go on exactly where it was:\n  tune-mtl {shlex.join(again)}", err=True)
        raise typer.Exit(exit_code()) from None
    screen.summarise(result, folder)
