"""A table once, in every form: Markdown, LaTeX (booktabs), CSV, HTML."""

import csv
import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tune_mtl.report.statistics import Sample


@dataclass(frozen=True)
class Cell:
    """A text, a number, or a number with its deviation over seeds; ``strong`` ones are set in bold."""

    value: str | float | Sample | None
    strong: bool = False

    @property
    def text(self) -> str:
        """For people: four significant digits, the deviation to the same decimals."""
        value = self.value
        if value is None:
            return "-"
        if isinstance(value, str):
            return value
        if isinstance(value, Sample):
            known = [abs(number) for number in (value.mean, value.deviation) if math.isfinite(number)]
            size = max(known, default=0.0)
            if size and not 1e-4 <= size < 1e9:
                parts = [f"{number:.3g}" for number in (value.mean, value.deviation) if not math.isnan(number)]
            else:
                parts = [
                    f"{number:.{_decimals(size)}f}" for number in (value.mean, value.deviation) if number == number
                ]
            return " ± ".join(parts)
        return number(value)

    @property
    def numeric(self) -> bool:
        """Whether it is set to the right."""
        return not isinstance(self.value, str)


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Attributes:
        key: Its file's name.
        title: In a line.
        header: Column names; the first column names the rows.
        rows: As many cells each.
        notes: What a reader has to know.
    """

    key: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = field(default=())

    def markdown(self) -> str:
        """GitHub's."""
        lines = [
            f"**{self.title}**",
            "",
            "| " + " | ".join(_bars(name) for name in self.header) + " |",
            "|---|" + "---:|" * (len(self.header) - 1),
        ]
        for row in self.rows:
            cells = [f"**{_bars(cell.text)}**" if cell.strong else _bars(cell.text) for cell in row]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", *self.notes]) + "\n"

    def latex(self) -> str:
        """A ``table`` environment for the package booktabs."""
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{tex(' '.join([self.title + '.', *self.notes]))}}}",
            rf"\label{{tab:{self.key}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
            r"\toprule",
            " & ".join(tex(name) for name in self.header) + r" \\",
            r"\midrule",
            *(" & ".join(_tex_cell(cell) for cell in row) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Numbers in full; a sample in three columns, its mean, deviation and number of seeds."""
        sampled = [any(isinstance(row[index].value, Sample) for row in self.rows) for index in range(len(self.header))]
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        names: list[str] = []
        for name, several in zip(self.header, sampled, strict=True):
            names += [name, f"{name} deviation", f"{name} seeds"] if several else [name]
        writer.writerow(names)
        for row in self.rows:
            values: list[object] = []
            for cell, several in zip(row, sampled, strict=True):
                value = cell.value
                if isinstance(value, Sample):
                    values += [value.mean, "" if math.isnan(value.deviation) else value.deviation, value.count]
                else:
                    values += ["" if value is None else value, *(["", ""] if several else [])]
            writer.writerow(values)
        return written.getvalue()

    def html(self, prefix: str = "") -> str:
        """With its title as caption, in a box that scrolls by itself where the screen is narrow.

        ``prefix`` tells its id from those of other tables with the same key.
        """
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.header)
        body = "".join(f"<tr>{_html_row(row)}</tr>\n" for row in self.rows)
        notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        return (
            f'<div class=table id="table-{prefix}{self.key}"><div class=scroll tabindex=0 role=region'
            f' aria-label="{html.escape(self.title)}"><table><caption>{html.escape(self.title)}</caption>'
            f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{notes}</div>\n"
        )


def _html_row(row: Sequence[Cell]) -> str:
    first, *others = row
    cells = [f'<th scope="row">{html.escape(first.text)}</th>']
    for cell in others:
        text = html.escape(cell.text)
        inner = f"<strong>{text}</strong>" if cell.strong else text
        cells.append(f"<td{' class=number' if cell.numeric else ''}>{inner}</td>")
    return "".join(cells)


def _decimals(size: float) -> int:
    """So many that the larger of a mean and its deviation has four digits."""
    return max(0, 3 - math.floor(math.log10(size))) if size else 0


def number(value: float) -> str:
    """Four significant digits, whole numbers in full; a dash for what is undefined."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _bars(text: str) -> str:
    return text.replace("|", r"\|")


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "Δ": r"$\Delta$", "<": r"$<$", ">": r"$>$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "|": r"$|$", "≤": r"$\leq$",
}  # fmt: skip


def tex(text: str) -> str:
    """``text`` as LaTeX shows it; what no standard font has becomes a question mark."""
    return "".join(_TEX.get(letter, letter if letter.isascii() else "?") for letter in text)


def _tex_cell(cell: Cell) -> str:
    text = tex(cell.text)
    return rf"\textbf{{{text}}}" if cell.strong else text
