"""A table once, in every form: Markdown, LaTeX (booktabs), CSV, HTML."""

import base64
import csv
import html
import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tune_mtl.reporting.statistics.significance import Sample
from tune_mtl.reporting.tables.number_format import number, sample_text, sample_texts


@dataclass(frozen=True)
class Cell:
    """A text, a number, or a number with its deviation over seeds.

    Attributes:
        value: None where there is none.
        strong: Set in bold.
        decimals: The decimals of a number; default: four significant digits.
    """

    value: str | float | Sample | None
    strong: bool = False
    decimals: int | None = None

    @property
    def text(self) -> str:
        """The text that a person reads."""
        value = self.value
        if value is None:
            return "-"
        if isinstance(value, str):
            return value
        if isinstance(value, Sample):
            return sample_text(value)
        return number(value) if self.decimals is None or math.isnan(value) else f"{value:.{self.decimals}f}"


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Attributes:
        key: The name of its files.
        title: The title, in a line.
        header: Column names; the first column names the rows.
        rows: The rows, each with a cell for every column.
        notes: What a reader has to know.
        grouped: Whether columns named ``task/metric`` share a heading of their task.
    """

    key: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = field(default=())
    grouped: bool = False

    @cached_property
    def texts(self) -> list[list[str]]:
        """The texts of every row that a person reads; results below each other have the same decimals."""
        columns = [_column([row[index] for row in self.rows]) for index in range(len(self.header))]
        return [list(row) for row in zip(*columns, strict=True)]

    @cached_property
    def words(self) -> list[bool]:
        """For each column, whether it holds texts, which are set to the left."""
        values = [[row[index].value for row in self.rows] for index in range(len(self.header))]
        return [index == 0 or any(isinstance(value, str) for value in found) for index, found in enumerate(values)]

    @cached_property
    def headings(self) -> list[tuple[str, list[str]]]:
        """The column names by the heading that they share, which is empty for those without."""
        split = [name.partition("/") if self.grouped else (name, "", "") for name in self.header]
        named = [(group, rest) if slash else ("", group) for group, slash, rest in split]
        return [(group, [name for _, name in found]) for group, found in itertools.groupby(named, lambda pair: pair[0])]

    def markdown(self) -> str:
        """Return the table in GitHub's Markdown."""
        lines = [
            f"**{self.title}**",
            "",
            "| " + " | ".join(map(_bars, self.header)) + " |",
            "|" + "".join("---|" if words else "---:|" for words in self.words),
        ]
        for row, texts in zip(self.rows, self.texts, strict=True):
            cells = [
                f"**{_bars(text)}**" if cell.strong else _bars(text) for cell, text in zip(row, texts, strict=True)
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", *(line for note in self.notes for line in (note, ""))])

    def csv(self) -> str:
        """Return numbers in full; a sample in three columns, its mean, deviation and number of seeds."""
        sampled = [any(isinstance(row[index].value, Sample) for row in self.rows) for index in range(len(self.header))]
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        names: list[str] = []
        for name, several in zip((name.rstrip(" ↓↑") for name in self.header), sampled, strict=True):
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

    def latex(self) -> str:
        """Return a ``table`` environment; its first line names the packages that it needs."""
        from tune_mtl.reporting.tables.latex import latex

        return latex(self)

    def html(self, prefix: str = "") -> str:
        """Return the table with its title above, in a box that scrolls by itself where the screen is narrow.

        ``prefix`` tells its id from those of other tables with the same key.
        """
        mark = f"table-{prefix}{self.key}"
        body = "".join(
            f"<tr>{self._html_row(row, texts)}</tr>\n" for row, texts in zip(self.rows, self.texts, strict=True)
        )
        notes = " ".join(map(html.escape, self.notes))
        return (
            f'<div class=table id="{mark}"><p class=caption id="{mark}-title">{html.escape(self.title)}</p>'
            f'<div class=scroll tabindex=0 role=region aria-labelledby="{mark}-title">'
            f'<table aria-labelledby="{mark}-title"><thead>{self._html_head()}</thead>\n<tbody>{body}</tbody></table>'
            f"</div><p class=note>{notes} {self._downloads()}</p></div>\n"
        )

    def _html_head(self) -> str:
        several = any(group for group, _ in self.headings)
        above, below, index = [], [], 0
        for group, names in self.headings:
            for name in names:
                kind = ' class="words"' if self.words[index] else ""
                single = f'<th scope="col"{kind}{{}}>{html.escape(name)}</th>'
                if group:
                    below.append(single.format(""))
                else:
                    above.append(single.format(" rowspan=2" if several else ""))
                index += 1
            if group:
                above.append(f'<th scope="colgroup" class="group" colspan={len(names)}>{html.escape(group)}</th>')
        return "".join(f"<tr>{''.join(line)}</tr>" for line in (above, below) if line)

    def _html_row(self, row: Sequence[Cell], texts: Sequence[str]) -> str:
        cells = []
        for index, (cell, text, words) in enumerate(zip(row, texts, self.words, strict=True)):
            inner = f"<strong>{html.escape(text)}</strong>" if cell.strong else html.escape(text)
            tag = 'th scope="row"' if index == 0 else "td"
            cells.append(f"<{tag}{' class=words' if words else ''}>{inner}</{tag[:2]}>")
        return "".join(cells)

    def _downloads(self) -> str:
        """Return the other forms within the page, which stays one file."""
        forms = (("CSV", "csv", self.csv()), ("LaTeX", "tex", self.latex()), ("Markdown", "md", self.markdown()))
        links = (
            f'<a download="{self.key}.{kind}" href="data:text/plain;charset=utf-8;base64,'
            f'{base64.b64encode(text.encode()).decode()}">{name}</a>'
            for name, kind, text in forms
        )
        return f"<span class=files>{' '.join(links)}</span>"


def _column(cells: Sequence[Cell]) -> list[str]:
    samples = [cell.value for cell in cells if isinstance(cell.value, Sample)]
    aligned = iter(sample_texts(samples))
    return [next(aligned) if isinstance(cell.value, Sample) else cell.text for cell in cells]


def _bars(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
