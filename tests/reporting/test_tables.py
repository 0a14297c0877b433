"""One table in four forms."""

import base64
import csv
import io
import math
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis.strategies import characters, floats, lists, text

from tune_mtl.reporting.statistics.significance import Difference, Sample
from tune_mtl.reporting.tables.latex import tex
from tune_mtl.reporting.tables.number_format import difference_text, p_text, rounded, sample_texts
from tune_mtl.reporting.tables.table import Cell, Table

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


def test_a_column_has_the_same_decimals():
    assert sample_texts([Sample(11.754, 3.38, 3), Sample(3.0961, 0.291, 3)]) == ["11.75 ± 3.38", "3.10 ± 0.29"]
    assert sample_texts([Sample(1440.0, 3.0, 3), Sample(0.5, 0.1, 3)]) == ["1440 ± 3", "0.5000 ± 0.1000"]
    assert sample_texts([Sample(0.0, 0.0, 3), Sample(0.25, 0.01, 3)]) == ["0.0000 ± 0.0000", "0.2500 ± 0.0100"]
    assert sample_texts([]) == []


def test_differences_have_the_digits_that_mean_something():
    gap = Difference(0.027583, 0.005726, 0.049434, 0.028)
    assert [difference_text(gap, value) for value in (gap.value, gap.low, gap.high)] == ["0.028", "0.006", "0.049"]
    assert rounded(1234.5, 200.0) == "1234"
    assert rounded(2e-12, 1e-13) == "2e-12"
    assert rounded(0.1, 0.0) == "0.1"
    assert [p_text(p) for p in (0.0281, 1.7e-9, 0.0, math.nan)] == ["p = 0.028", "p < 1e-06", "p < 1e-06", "no test"]


def test_columns_of_a_task_share_its_heading():
    table = Table(
        "t", "t", ["strategy", "loss", "sum/mae", "sum/rmse", "left/accuracy"],
        [[Cell("io"), *(Cell(-1.5) for _ in range(4))]], grouped=True,
    )  # fmt: skip
    page, source = table.html(), table.latex()
    assert '<th scope="colgroup" class="group" colspan=2>sum</th>' in page
    assert '<th scope="col" rowspan=2>loss</th>' in page
    assert r" &  & \multicolumn{2}{c}{sum} & \multicolumn{1}{c}{left} \\" in source
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){5-5}" in source
    assert "$-$1.5" in source
    assert "resizebox" not in source
    assert table.csv().startswith("strategy,loss,sum/mae,sum/rmse,left/accuracy\n")


def test_the_other_forms_are_within_the_page():
    links = dict(re.findall(r'download="([^"]+)" href="data:[^,]+,([^"]+)"', TABLE.html()))
    assert base64.b64decode(links["quality.csv"]).decode() == TABLE.csv()
    assert base64.b64decode(links["quality.tex"]).decode() == TABLE.latex()
    assert base64.b64decode(links["quality.md"]).decode() == TABLE.markdown()


def test_markdown_has_bold_and_escaped_bars():
    lines = TABLE.markdown().splitlines()
    assert lines[2] == "| strategy | loss ↓ | Δm % ↑ | config |"
    assert lines[3] == "|---|---:|---:|---|"
    assert "| **0.1235 ± 0.0032** |" in lines[4]
    assert r"<a\|b>" in lines[4]


def test_csv_comes_back_in_full():
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert [row["strategy"] for row in rows] == ["io (4 groups)", "sus"]
    assert float(rows[0]["loss"]) == 0.12345
    assert float(rows[0]["loss deviation"]) == 0.00321
    assert rows[0]["loss seeds"] == "3"
    assert rows[1]["loss deviation"] == rows[1]["Δm %"] == ""
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
def test_latex_compiles_within_the_lines(tmp_path):
    wide = Table(
        "wide", "Many columns", ["strategy", *(f"task_{i}/metric ↓" for i in range(12))],
        [[Cell("io"), *(Cell(Sample(0.5, 0.1, 3)) for _ in range(12))]], grouped=True,
    )  # fmt: skip
    sentence = "something that is said at length & with _marks_; " * 8
    long = Table(
        "long", "Sentences", ["claim", "verdict", "numbers"], [[Cell(sentence), Cell("holds"), Cell(sentence)]]
    )
    tables = "".join(table.latex() for table in (TABLE, wide, long))
    packages = "\\usepackage{booktabs,graphicx}"
    document = f"\\documentclass{{article}}{packages}\\begin{{document}}\n{tables}\\end{{document}}\n"
    (tmp_path / "paper.tex").write_text(document)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert (tmp_path / "paper.pdf").stat().st_size > 1000
