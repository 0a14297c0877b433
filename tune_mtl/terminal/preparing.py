"""What `tune-mtl prepare` shows."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tune_mtl.prepare.datasets import prepare_source
from tune_mtl.terminal.console import console

if TYPE_CHECKING:
    from tune_mtl.prepare.source import Source

_LINES = 10


def run_prepare(source: "Source", out: Path, *, workers: int | None, skip_bad: bool) -> None:
    """Prepare with a progress bar in a terminal, a few lines elsewhere; then say what was made."""
    screen = console()
    for warning in source.warnings:
        screen.print(f"warning: {warning}", soft_wrap=True)
    if sys.stdout.isatty():
        from rich.progress import Progress, TimeElapsedColumn

        with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=screen) as progress:
            bar = progress.add_task(source.name, total=None)
            manifest = prepare_source(
                source,
                out,
                workers=workers,
                skip_bad=skip_bad,
                on_progress=lambda done, total: progress.update(bar, completed=done, total=total),
            )
    else:
        shown = -1

        def show(done: int, total: int) -> None:
            nonlocal shown
            if done * _LINES // total > shown:
                shown = done * _LINES // total
                screen.print(f"{source.name}: {done} of {total}")

        manifest = prepare_source(source, out, workers=workers, skip_bad=skip_bad, on_progress=show)
    for reason in manifest.skipped:
        screen.print(f"left out: {reason}", soft_wrap=True)
    sizes = ", ".join(f"{split} {next(iter(arrays.values())).shape[0]}" for split, arrays in manifest.splits.items())
    screen.print(f"prepared {source.name}: {sizes}, in {out / source.name}", soft_wrap=True)
    screen.print(f"next: TUNE_MTL_DATA={out} tune-mtl search {source.name}", soft_wrap=True)
