"""One trial on the screen: a live bar on a terminal, plain lines elsewhere, a closing table."""

from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tune_mtl.core.outcome import Outcome
from tune_mtl.terminal.console import console, number, table
from tune_mtl.training.config import Config
from tune_mtl.training.trainer import Record
from tune_mtl.training.trial import TrialResult


class TrainingScreen:
    """``show`` is called at each evaluation; ``summarise`` once at the end."""

    def __init__(self) -> None:
        self._console = console()
        self._progress = Progress(
            TextColumn("epoch {task.completed:.0f}/{task.total}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bar: TaskID = self._progress.add_task("loading", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, record: Record, config: Config) -> None:
        """Epoch, losses, time left."""
        objective = config.objective.metric
        names = dict.fromkeys(("train/loss", "val/loss", objective))
        losses = "  ".join(f"{name} {number(record.get(name))}" for name in names)
        self._progress.update(self._bar, completed=record["epoch"], total=config.epochs, description=losses)
        if not self._console.is_terminal:
            epoch = record["epoch"]
            left = record["seconds"] / epoch * (config.epochs - epoch)
            self._console.print(f"epoch {epoch:.0f}/{config.epochs}  {losses}  {left:.0f} s left")

    def summarise(self, result: TrialResult, folder: Path) -> None:
        """Losses and metrics of each task at the best epoch, the path, and where everything is."""
        metrics = result.metrics
        epochs = result.history[-1]["epoch"] if result.history else 0
        best = metrics.get("best/epoch")
        self._console.print(
            f"\n{result.outcome} after {epochs:.0f} epochs, {metrics['updates']:.0f} updates,"
            f" {metrics['seconds']:.1f} s" + (f"; best epoch {best:.0f}" if best is not None else "")
        )
        if result.outcome == Outcome.DIVERGED:
            why = result.reason or "a loss was not finite"
            self._console.print(f"{why}. At lr={result.config['lr']}: try a smaller one.", soft_wrap=True)
        splits = [split for split in ("best/val", "test") if f"{split}/loss" in metrics]
        if splits:
            names = [name.removeprefix("best/val/") for name in metrics if name.startswith("best/val/")]
            rows = [(name, *(number(metrics.get(f"{split}/{name}")) for split in splits)) for name in names]
            table(("at the best epoch", *(split.removeprefix("best/") for split in splits)), rows)
        if "path/best_total" in metrics:
            row = tuple(number(metrics[f"path/best_{name}"]) for name in ("total", "shortest", "ratio"))
            table(("path of the shared weights", "total", "shortest", "ratio"), [("to the best epoch", *row)])
        weights = "" if result.checkpoint is None else f"; the best weights are in {result.checkpoint}"
        self._console.print(f"Config, metrics and history are in {folder}/result.json{weights}.", soft_wrap=True)
