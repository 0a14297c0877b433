"""Plain tables that fit the screen."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table


def console() -> Console:
    """Standard output; in a file or a pipe wide enough that nothing is cut or wrapped."""
    screen = Console(highlight=False, markup=False)
    return screen if screen.is_terminal else Console(highlight=False, markup=False, width=400)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print ``rows``; all columns but the first are right-aligned if they hold numbers."""
    rows = [tuple(row) for row in rows]
    drawn = Table(box=box.SIMPLE, title=title, title_justify="left", pad_edge=False)
    for index, name in enumerate(header):
        numeric = index > 0 and any(_is_number(row[index]) for row in rows)
        drawn.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        drawn.add_row(*row)
    console().print(drawn)


def number(value: float | None) -> str:
    """Four significant digits; a dash for what is undefined."""
    return "-" if value is None or value != value else f"{value:.4g}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
