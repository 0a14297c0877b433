"""Takes the README's pictures: of a report, and of MLflow's pages as ``tune-mtl ui`` prints their addresses.

From the root, after ``make search``:

    python -m docs.images.make runs/reports/NAME/index.html
    tune-mtl ui NAME > addresses.txt &      # then, once the addresses are there:
    python -m docs.images.make addresses.txt

Nothing on a page is set by hand: what the pictures show is what a click on an address shows.
"""

import sys
from pathlib import Path

from playwright.sync_api import Page

from tests.browser import opened

FOLDER = Path(__file__).parent
PAGES = {
    "trials, best first": ("mlflow-runs.png", "matching runs"),
    "their charts": ("mlflow-charts.png", "The search"),
    "the best of each strategy": ("mlflow-compare.png", "Comparing"),
    "the answer, how it went": ("mlflow-search.png", "How to read"),
}
"""How ``tune-mtl ui`` calls its addresses, the picture of each, and what is on the page once it is there."""


def picture(page: Page, name: str, first: str, last: str, most: float) -> None:
    """What lies between the tops of two elements, but no more than ``most`` pixels."""
    top, end = (page.locator(selector).first.bounding_box() for selector in (first, last))
    assert top is not None
    assert end is not None
    width = page.viewport_size["width"] if page.viewport_size else 1280
    area = {"x": 0, "y": max(0, top["y"] - 24), "width": width, "height": min(most, end["y"] - top["y"])}
    page.screenshot(path=FOLDER / name, clip=area, full_page=True)


def of_report(address: str) -> None:
    """Take the pictures of a report."""
    with opened(address, width=1280) as page:
        picture(page, "report.png", "header", "#table-path-common", 2000)
    with opened(address, width=390) as page:
        picture(page, "report-phone.png", "header", "footer", 1500)
    with opened(address, width=1280, dark=True) as page:
        picture(page, "report-dark.png", "h2:has-text('Figures')", "h2:has-text('How it was done')", 2000)


def of_mlflow(printed: str, folder: Path = FOLDER) -> None:
    """Take the pictures of the first search that ``tune-mtl ui`` has printed."""
    for title, (name, awaited) in PAGES.items():
        line = next(line for line in printed.splitlines() if line.strip().startswith(title))
        with opened(line.split()[-1], width=1800, height=900) as page:
            page.wait_for_selector(f"text={awaited}", timeout=90_000)
            page.wait_for_timeout(5000)  # charts are drawn after their data have come
            page.screenshot(path=folder / name)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    if given.suffix == ".html":
        of_report(given.absolute().as_uri())
    else:
        of_mlflow(given.read_text(), *map(Path, sys.argv[2:]))
