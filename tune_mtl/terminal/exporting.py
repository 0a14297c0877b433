"""What an export is, where it is, and how another program uses it."""

from typing import TYPE_CHECKING

from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.terminal.console import console

if TYPE_CHECKING:
    from tune_mtl.exporting.deliver import Exported


def show_export(done: "Exported", registered: str | None, search: str) -> None:
    """Say what was exported and how it is loaded."""
    agrees = "bit for bit" if done.difference == 0 else f"within {done.difference:.1g}"
    lines = [
        f"exported the best network of search '{search}': {done.uri or done.path}",
        f"loaded back, it predicts {', '.join(done.outputs)} as the trained network does: {agrees}.",
    ]
    if done.uri is not None and done.path is not None:
        lines.append(f"also as a folder: {done.path}")
    if done.batch_size is not None:
        lines.append(f"it takes {done.batch_size} sample at a time: torch.export finds no general batch size in it.")
    if done.version is not None:
        lines.append(f"registered as version {done.version} of '{registered}': models:/{registered}/{done.version}")
    lines += ["", "use it:", *(f"  {line}" for line in usage(done))]
    console().print("\n".join(lines), soft_wrap=True, markup=False, highlight=False)


def usage(done: "Exported") -> list[str]:
    """Return a few lines of Python that load the export and predict."""
    if done.to == "mlflow":
        return [
            f'mlflow.set_tracking_uri("{without_secrets(done.tracking_uri)}")',
            f'model = mlflow.pytorch.load_model("{done.uri}")',
            f"predictions = model({done.takes})    # a dict by task",
        ]
    if done.to == "torch":
        return [
            f'model = torch.export.load("{done.path}").module()',
            f"predictions = model({done.takes})    # a dict by task",
        ]
    fed = ", ".join(f'"{name}": {name}' for name in done.inputs)
    return [
        f'session = onnxruntime.InferenceSession("{done.path}")',
        f"{', '.join(done.outputs)} = session.run(None, {{{fed}}})",
    ]
