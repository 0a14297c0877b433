"""The documentation's tables are those of the code, its links lead somewhere."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from tune_mtl.core.version import VERSION

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", ["strategies.md", "statistics.md", "glyphs.md", "../README.md"])
def test_generated_tables_are_up_to_date(name):
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = (DOCS / name).read_text()
    assert generate.filled(page) == page, "run: python docs/generate.py"


ROOT = DOCS.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


FILE = re.compile(r"((?:[\w.-]+/)*[\w.-]+\.(?:py|md|css|toml|ipynb|sh|ya?ml|json))(?::([\w.]+))?")
FOLDER = re.compile(r"(?:[\w.-]+/)+")


def definitions(path):
    """The names that a module defines: its own, and those of its classes as ``Class.name``."""

    def names(body, prefix=""):
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from names(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))

    return set(names(ast.parse(path.read_text()).body))


def missing(page):
    """What a page names in code that is not there: files, folders, and names in modules."""
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
        file = FILE.fullmatch(code)
        if (file is None and not FOLDER.fullmatch(code)) or "NAME" in code:
            continue
        path = next(
            (p for p in (place / (file[1] if file else code) for place in (ROOT, ROOT / "tune_mtl")) if p.exists()),
            None,
        )
        if path is None or (file and file[2] and file[2] not in definitions(path)):
            yield code


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_and_name_that_contributors_are_sent_to_is_there(name):
    assert list(missing((ROOT / name).read_text())) == []


def test_a_file_or_name_that_is_gone_is_found():
    page = "`core/gone.py` `core/files.py:gone` `core/gone/`, but `core/files.py:write_json` `core/` `a.b` `a/NAME.py`"
    assert list(missing(page)) == ["core/gone.py", "core/files.py:gone", "core/gone/"]


def test_the_newest_version_of_the_changelog_is_this_one():
    versions = re.findall(r"^## \[?([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert versions[0] == VERSION
