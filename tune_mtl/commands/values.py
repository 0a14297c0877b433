"""Values as people type them on a command line and in config files."""

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.process.home import home_as_given
from tune_mtl.strategies.registry import texts


def new_folder(problem: str, given: dict[str, Any]) -> Path:
    """Return a folder of its own for a run that was not given one."""
    parts = (problem.replace(":", "-"), given.get("strategy", "run"), time.strftime("%Y%m%d-%H%M%S"), str(os.getpid()))
    return home_as_given() / "train" / "-".join(re.sub(r"[^A-Za-z0-9_.-]", "_", str(part)) for part in parts)


def read_config(path: Path) -> dict[str, Any]:
    """Return config values from a JSON or YAML file; of a result.json its config."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"--config {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"--config {path} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if isinstance(content, dict) and isinstance(content.get("config"), dict):
        content = content["config"]
    if not isinstance(content, dict):
        raise UserError(f"--config {path} must hold key: value pairs, got {type(content).__name__}.")
    return {key: value if key in texts() else number(value) for key, value in content.items()}


def assignment(text: str) -> tuple[str, Any]:
    """Return key and value of ``key=value``; the value is read as JSON where it is JSON, else as text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UserError(f"--set {text!r} must be KEY=VALUE.")
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = number(value)
    return key, value if isinstance(read, int | float) and key in texts() else read


def number(value: Any) -> Any:
    """Return the number a text stands for (to YAML, ``1e-3`` is a text), else the text."""
    for kind in (int, float):
        if isinstance(value, str):
            with suppress(ValueError):
                return kind(value)
    return value
