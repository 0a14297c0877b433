"""The docstring and the signature of a function whose keywords are the options of a search."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from tune_mtl.results.search_options import SearchOptions
from tune_mtl.results.settings import Settings

_Function = TypeVar("_Function", bound=Callable[..., Any])
_WIDTH = 120


def explained(function: _Function) -> _Function:
    """Return ``function`` with every option in its docstring and its signature, in place of ``**options``.

    ``help`` and notebooks show both; editors and type checkers read the ``TypedDict`` in its source instead.
    """
    asked, types = Settings.asked(), get_type_hints(SearchOptions)
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    place = next(index for index, line in enumerate(lines) if line.lstrip().startswith("**options:"))
    entries = [_entry(name, asked[name].help) for name in types]
    function.__doc__ = "\n".join([*lines[:place], *entries, *lines[place + 1 :]])
    signature = inspect.signature(function)
    fixed = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in types.items()
    ]
    function.__signature__ = signature.replace(parameters=[*fixed, *options])  # type: ignore[attr-defined]
    return function


def _entry(name: str, text: str) -> str:
    """Return the lines of one option."""
    return textwrap.fill(f"{name}: {text}", _WIDTH, initial_indent="    ", subsequent_indent="        ")
