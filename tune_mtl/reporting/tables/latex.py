"""Tables for papers: LaTeX with booktabs."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tune_mtl.reporting.tables.table import Cell, Table

_LINE_LETTERS = 70
"""About as many fit into a line of an article; wider tables are scaled down to it."""
_SENTENCE = 40
"""Texts longer than this are set as paragraphs."""


def latex(table: "Table") -> str:
    """Return a ``table`` environment; its first line names the packages that it needs."""
    names = [name for _, found in table.headings for name in found]
    columns = list(zip(names, *table.texts, strict=True))
    longest = [max(map(_width, column)) for column in columns]
    paragraphs = [words and most > _SENTENCE for words, most in zip(table.words, longest, strict=True)]
    scaled = not any(paragraphs) and sum(longest) + 2 * len(longest) > _LINE_LETTERS
    title = table.title if table.title.endswith("?") else f"{table.title}."
    lines = [
        f"% needs: \\usepackage{{booktabs{',graphicx' if scaled else ''}}}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{tex(' '.join([title, *table.notes]))}}}",
        rf"\label{{tab:{table.key}}}",
        r"\medskip",
        *([r"\setlength{\tabcolsep}{4pt}", r"\resizebox{\linewidth}{!}{%"] if scaled else []),
        rf"\begin{{tabular}}{{{_columns(table, longest, paragraphs)}}}",
        r"\toprule",
        *_head(table),
        r"\midrule",
        *(
            " & ".join(map(_cell, row, texts, paragraphs)) + r" \\"
            for row, texts in zip(table.rows, table.texts, strict=True)
        ),
        r"\bottomrule",
        r"\end{tabular}" + ("}" if scaled else ""),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _width(text: str) -> float:
    """Return the width of a text in letters; deviations are set smaller."""
    value, _, deviation = text.partition(" ± ")
    return len(value) + 0.75 * len(deviation) + 1.5 * bool(deviation)


def _columns(table: "Table", longest: list[float], paragraphs: list[bool]) -> str:
    """Set texts to the left, numbers to the right, sentences in what is left of the line."""
    short = sum(most + 2 for most, paragraph in zip(longest, paragraphs, strict=True) if not paragraph)
    share = max(0.4, 1 - short / _LINE_LETTERS) - 0.09
    weights = [math.sqrt(most) if paragraph else 0.0 for most, paragraph in zip(longest, paragraphs, strict=True)]
    return "".join(
        rf"p{{{share * weight / sum(weights):.2f}\linewidth}}" if weight else "l" if words else "r"
        for weight, words in zip(weights, table.words, strict=True)
    )


def _head(table: "Table") -> list[str]:
    if not any(group for group, _ in table.headings):
        return [" & ".join(map(tex, table.header)) + r" \\"]
    above: list[str] = []
    rules: list[str] = []
    below: list[str] = []
    position = 1
    for group, names in table.headings:
        last = position + len(names) - 1
        if group:
            above.append(rf"\multicolumn{{{len(names)}}}{{c}}{{{tex(group)}}}")
            rules.append(rf"\cmidrule(lr){{{position}-{last}}}")
        else:
            above += [""] * len(names)
        below += map(tex, names)
        position = last + 1
    return [" & ".join(above) + r" \\", "".join(rules), " & ".join(below) + r" \\"]


def _cell(cell: "Cell", text: str, paragraph: bool) -> str:
    minus = not isinstance(cell.value, str) and text.startswith("-") and text != "-"
    value, _, deviation = text.removeprefix("-" if minus else "").partition(" ± ")
    set_in = ("$-$" if minus else "") + tex(value)
    set_in = rf"\textbf{{{set_in}}}" if cell.strong else set_in
    set_in += rf" {{\scriptsize$\pm$ {tex(deviation)}}}" if deviation else ""
    return rf"{{\raggedright {set_in}\par}}" if paragraph else set_in


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "Δ": r"$\Delta$", "<": r"$<$", ">": r"$>$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "|": r"$|$", "≤": r"$\leq$", "\n": " ", "\r": " ",
}  # fmt: skip


def tex(text: str) -> str:
    """Return ``text`` as LaTeX shows it; what no standard font has becomes a question mark."""
    return "".join(_TEX.get(letter, letter if letter.isascii() else "?") for letter in text)
