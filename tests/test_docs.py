"""The documentation's tables are those of the code."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", ["strategies.md", "statistics.md"])
def test_generated_tables_are_up_to_date(name):
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = (DOCS / name).read_text()
    assert generate.filled(page) == page, "run: python docs/generate.py"
