"""The documentation's tables are those of the code."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_strategies_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = (DOCS / "strategies.md").read_text()
    assert generate.filled(page) == page, "run: python docs/generate.py"
