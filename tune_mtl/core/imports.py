"""What users bring: found by its name, ``package.module:attribute``, from the current directory too. Loads no torch."""

import importlib
import importlib.util
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tune_mtl.core.errors import UserError, did_you_mean

_INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages, whichever environment or user they belong to."""


def is_reference(name: str) -> bool:
    """Return whether ``name`` says where something is found, ``package.module:attribute``, rather than what it is."""
    return ":" in name


def has_module(reference: str) -> bool:
    """Return whether another process can import what ``reference`` names: its module is a file of its own."""
    module, _, attribute = reference.partition(":")
    return module != "__main__" and "<locals>" not in attribute


def in_main(reference: str) -> bool:
    """Return whether the program that runs is one that defines what ``reference`` names."""
    import __main__

    module, _, attribute = reference.partition(":")
    return module == "__main__" and hasattr(__main__, attribute)


def reference_to(thing: Any) -> str:
    """Return the reference of a class or function: its module, and its name there."""
    return f"{thing.__module__}:{thing.__qualname__}"


def is_below(reference: str, folder: Path) -> bool:
    """Return whether the module of ``reference`` is a file in ``folder``, rather than one of an installed package."""
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(reference.partition(":")[0])
        if spec is not None and spec.origin is not None:
            place = Path(spec.origin).resolve()
            return place.is_relative_to(folder.resolve()) and "site-packages" not in place.parts
    return False


def findable(directory: str) -> None:
    """Have modules be found in ``directory``, before all others."""
    if directory not in sys.path:
        sys.path.insert(0, directory)


def load(reference: str, directory: str | None = None) -> Any:
    """Return what ``reference`` names.

    Args:
        reference: ``package.module:attribute``; the attribute may be one of a class, ``module:Class.attribute``.
        directory: Where the module is looked for first; default: the current directory.

    Raises:
        UserError: if the module does not import (its own error is shown, with the line), or has no such attribute.
    """
    here = directory or str(Path.cwd())
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise UserError(f"'{reference}' must be package.module:attribute.")
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise UserError(f"'{reference}' must be package.module:attribute, without a path: {dotted}:{path}.")
    if not has_module(reference) and not in_main(reference):
        raise UserError(
            f"'{reference}' was given as an object, which no other process can import: go on in the notebook or program"
            " that defines it, or put it into a module of its own."
        )
    findable(here)
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise UserError(f"module '{module_name}' does not import from {here}: {_where(error)}") from error
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            known = [name for name in vars(found) if not name.startswith("_")]
            raise UserError(f"module '{module_name}' has no '{path}'. {did_you_mean(attribute, known)}")
        found = getattr(found, attribute)
    return found


def _where(error: BaseException) -> str:
    """Return the error and the last line of the user's file it came from."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.exists(frame.filename)  # noqa: PTH110
    ]
    own = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def in_a_line(error: BaseException) -> str:
    """Return an error with its kind, and the last line of the user's own file that it came through, if any."""
    text = " ".join(str(error).split())
    text = text if len(text) <= 240 else text[:237] + "..."
    own = own_frames(traceback.extract_tb(error.__traceback__))
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def own_frames(frames: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return those of ``frames`` that are in the user's own files."""
    ours = str(Path(__file__).parents[1])
    others = (ours, *site.getsitepackages(), sysconfig.get_path("stdlib"), "<")
    return [
        frame
        for frame in frames
        if not frame.filename.startswith(others) and _INSTALLED.isdisjoint(Path(frame.filename).parts)
    ]
