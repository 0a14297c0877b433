"""The command that hands the best network to other programs."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    name: Annotated[str, typer.Argument(help="The name of the search.")],
    to: Annotated[str, typer.Option(metavar="mlflow|torch|onnx", help="The format.")],
    strategy: Annotated[str | None, typer.Option(help="The best of this strategy alone.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file. Default: in ./runs/exports. With mlflow: a folder, besides the run.")
    ] = None,
    register: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of a registered MLflow model that gets a new version.")
    ] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="The MLflow store.")] = None,
) -> None:
    """Export the best network of a search; it is loaded back and its predictions compared.

    mlflow: a model of the winner's run (which has it already, unless the search was told not to), for
    mlflow.pytorch.load_model. torch: a file for torch.export.load. onnx: a file for ONNX runtimes. None of them needs
    this package.

    Example: tune-mtl export NAME --to onnx
    """
    from tune_mtl.results.searches import export as run
    from tune_mtl.terminal.exporting import show_export

    show_export(
        run(name, to=to, strategy=strategy, out=out, register=register, tracking_uri=tracking_uri), register, name
    )
