"""One table in four forms."""

import csv
import io
import math
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis.strategies import characters, floats, lists, text

from tune_mtl.report.statistics import Sample
from tune_mtl.report.tables import Cell, Table, tex

TABLE = Table(
    "quality",
    "What 100 % of us & them_reach",
    ["strategy", "loss ↓", "Δm % ↑", "config"],
    [
        [
            Cell("io (4 groups)"),
            Cell(Sample(0.12345, 0.00321, 3), strong=True),
            Cell(-1.25),
            Cell("lr=#1{x}\\y~z^2 <a|b>"),
        ],
        [Cell("sus"), Cell(Sample(0.5, math.nan, 1)), Cell(None), Cell("")],
    ],
    ["Bold: best ± nothing."],
)


def test_numbers_are_short_and_deviations_have_the_means_decimals():
    assert Cell(Sample(0.12345, 0.00321, 3)).text == "0.1235 ± 0.0032"
    assert Cell(Sample(1234.5, 12.25, 3)).text == "1234 ± 12"
    assert Cell(Sample(0.5, math.nan, 1)).text == "0.5000"
    assert Cell(Sample(4e-9, 1e-9, 3)).text == "4e-09 ± 1e-09"
    assert Cell(Sample(0.0, 0.3, 3)).text == "0.0000 ± 0.3000"
    assert Cell(Sample(1e20, 0.0, 3)).text == "1e+20 ± 0"
    assert Cell(Sample(0.0, 0.0, 3)).text == "0 ± 0"
    assert [Cell(value).text for value in (1440, 1440.0, 5e-5, 0.002437, math.nan, None, "x")] == [
        "1440", "1440", "5e-05", "0.002437", "-", "-", "x",
    ]  # fmt: skip


def test_markdown_has_bold_and_escaped_bars():
    lines = TABLE.markdown().splitlines()
    assert lines[2] == "| strategy | loss ↓ | Δm % ↑ | config |"
    assert "| **0.1235 ± 0.0032** |" in lines[4]
    assert r"<a\|b>" in lines[4]


def test_csv_comes_back_in_full():
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert [row["strategy"] for row in rows] == ["io (4 groups)", "sus"]
    assert float(rows[0]["loss ↓"]) == 0.12345
    assert float(rows[0]["loss ↓ deviation"]) == 0.00321
    assert rows[0]["loss ↓ seeds"] == "3"
    assert rows[1]["loss ↓ deviation"] == rows[1]["Δm % ↑"] == ""
    assert rows[0]["config"] == "lr=#1{x}\\y~z^2 <a|b>"


@given(lists(floats(-1e100, 1e100), min_size=2, max_size=5), text(max_size=20))
def test_csv_round_trips(values, label):
    label = label.replace("\r", "").replace("\n", "").replace("\0", "")
    table = Table("t", "t", ["row", "value"], [[Cell(label), Cell(Sample.of(values))]])
    (row,) = csv.DictReader(io.StringIO(table.csv()))
    assert row["row"] == label
    assert Sample(float(row["value"]), float(row["value deviation"]), int(row["value seeds"])) == Sample.of(values)


def test_html_escapes_and_scrolls_by_itself():
    page = TABLE.html()
    assert "&lt;a|b&gt;" in page
    assert "<strong>0.1235 ± 0.0032</strong>" in page
    assert "<a|b>" not in page
    assert "class=scroll" in page


@given(text(characters(exclude_categories=("Cs", "Cc"))))
def test_tex_leaves_nothing_special(anything):
    plain = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]|\$[^$]*\$", "", tex(anything))
    assert not set(plain) & set("\\&%$#_{}~^")
    assert plain.isascii()


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no TeX on this machine (apt install texlive-latex-recommended)"
)
def test_latex_compiles(tmp_path):
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + TABLE.latex() + "\\end{document}\n"
    (tmp_path / "paper.tex").write_text(document)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 1000
