"""Takes the README's pictures of a report: the answer with its tables, a phone, and the figures in the dark.

From the root: `make search`, then `python -m docs.images.make runs/reports/NAME/index.html`.
"""

import sys
from pathlib import Path

from playwright.sync_api import Page

from tests.browser import opened

FOLDER = Path(__file__).parent


def picture(page: Page, name: str, first: str, last: str, most: float) -> None:
    """What lies between the tops of two elements, but no more than ``most`` pixels."""
    top, end = (page.locator(selector).first.bounding_box() for selector in (first, last))
    assert top is not None
    assert end is not None
    width = page.viewport_size["width"] if page.viewport_size else 1280
    area = {"x": 0, "y": max(0, top["y"] - 24), "width": width, "height": min(most, end["y"] - top["y"])}
    page.screenshot(path=FOLDER / name, clip=area, full_page=True)


def main(address: str) -> None:
    with opened(address, width=1280) as page:
        picture(page, "report.png", "header", "#table-path-common", 2000)
    with opened(address, width=390) as page:
        picture(page, "report-phone.png", "header", "footer", 1500)
    with opened(address, width=1280, dark=True) as page:
        picture(page, "report-dark.png", "h2:has-text('Figures')", "h2:has-text('How it was done')", 2000)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute().as_uri())
