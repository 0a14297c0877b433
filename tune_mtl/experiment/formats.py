"""Which searches this version can go on with: those whose folders have a format that it knows."""

from collections.abc import Collection, Mapping
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.version import VERSION
from tune_mtl.results.settings import FORMAT, VERSION_OF_FORMAT_1

SAVED = (2, FORMAT)
"""The formats whose saved trials can be taken up again."""
RECORDED = (1, 2, FORMAT)
"""Those whose settings mean what they mean now: what needs them and the tracking store alone works."""


def check_format(name: str, saved: Mapping[str, Any], known: Collection[int] = SAVED) -> None:
    """Refuse a search whose folder has a format that is not ``known``.

    Args:
        name: Of the search.
        saved: Its settings as its file has them; format 1 says neither format nor version there.
        known: The formats that what is to be done can work with.

    Raises:
        UserError: if the format is another.
    """
    format_ = saved.get("format", 1)
    if format_ not in known:
        raise UserError(
            f"search '{name}' was begun by tune-mtl {saved.get('version', VERSION_OF_FORMAT_1)} (format {format_}), and"
            f" this is tune-mtl {VERSION} (format {FORMAT}), which cannot go on with it: best, report, list and rm work"
            " on it; a new search under another --name repeats it."
        )
