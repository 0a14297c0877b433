"""The commands that read what searches have recorded, and the one that removes it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tune_mtl.commands.short_lived import short_lived


@short_lived
def report(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of one or more searches.")],
    out: Annotated[Path | None, typer.Option(help="Folder. Default: reports/NAME in ./runs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict for programs; write nothing.")] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="The strategy against which each task's change is measured. Default: stl, else sus."),
    ] = None,
    front: Annotated[
        str | None,
        typer.Option(metavar="TASK,TASK[,TASK]", help="Tasks whose Pareto front is drawn pair by pair too."),
    ] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Write the report of a search: one page, with its tables and figures as files beside it."""
    from tune_mtl.reporting.verdict import verdict
    from tune_mtl.reporting.write import write_report
    from tune_mtl.terminal import searches as screen

    if as_json:
        found = [verdict(name, tracking_uri=tracking_uri, reference=reference) for name in names]
        typer.echo(json.dumps(found[0] if len(found) == 1 else found, indent=1))
        return
    tasks = None if front is None else [task.strip() for task in front.split(",")]
    screen.show_report(write_report(*names, out=out, tracking_uri=tracking_uri, reference=reference, front=tasks))


@short_lived
def claims(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of one or more searches.")],
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Check the paper's claims on a search: holds, does not hold, or cannot tell, with the numbers."""
    from tune_mtl.reporting.write import paper_claims
    from tune_mtl.terminal import searches as screen

    screen.show_claims(paper_claims(*names, tracking_uri=tracking_uri))


@short_lived
def best(
    name: Annotated[str, typer.Argument(help="The name of the search.")],
    strategy: Annotated[str | None, typer.Option(help="The best of this strategy alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    recompute: Annotated[bool, typer.Option("--recompute", help="Look at all trials again.")] = False,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Print the best config of a search and the command that repeats it exactly."""
    from tune_mtl.results.searches import best as find

    found = find(name, strategy=strategy, tracking_uri=tracking_uri, recompute=recompute)
    if as_json:
        content = {"config": found.config, "metrics": found.metrics, "run_id": found.run_id, "trial_id": found.trial_id}
        typer.echo(
            json.dumps({**content, "outcome": found.outcome, "value": found.value, "seeds": found.seeds}, indent=1)
        )
        return
    from tune_mtl.terminal import searches as screen

    screen.show_best(name, found)


@short_lived
def list_searches(tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None) -> None:
    """List the searches of the store: state, trials, best."""
    from tune_mtl.results.summaries import summaries
    from tune_mtl.terminal import searches as screen

    screen.show_searches(summaries(tracking_uri))


@short_lived
def rm(
    name: Annotated[str, typer.Argument(help="The name of the search to remove.")],
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Remove a search: its runs in MLflow and its folder."""
    from tune_mtl.experiment.manage import remove

    removed = remove(name, tracking_uri)
    typer.echo(f"removed search '{name}': {removed} runs and its folder.")


def ui(
    name: Annotated[str | None, typer.Argument(help="The name of a search. Default: the newest ones.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the first address in a browser.")] = False,
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 5000,
    host: Annotated[str, typer.Option(help="Who may connect; the default is this machine alone.")] = "127.0.0.1",
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Start the MLflow UI on the store, until Ctrl-C, and print addresses that are ready.

    For each search: its trials sorted by the objective, their charts, the best of each strategy side by side, and the
    search's own run with the answer. Where the store is a server already, only the addresses are printed.
    """
    from tune_mtl.experiment.ui_server import serve

    raise typer.Exit(serve(host, port, tracking_uri, search=name, browse=open_))
