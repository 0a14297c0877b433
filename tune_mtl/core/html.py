"""Small pieces of HTML, for results that show themselves in a notebook. Everything given is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers as people read them."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{'<b>' if bold else ''}{escape(text)}{'</b>' if bold else ''}</p>"


def cell(value: object) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "-"
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))
