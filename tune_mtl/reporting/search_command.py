"""The command that repeats a search."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from tune_mtl.results.search_data import Evidence

_PRIVATE = ("problem", "name", "address", "storage", "tracking_uri", "report", "export", "grown")
"""What a command for others leaves out: places, and what may hold a password; the problem is said first."""

_DEFAULTS: dict[str, Any] = {
    "space": "wide", "algorithm": "optuna", "scheduler": "asha", "balance": "strategy", "seed": 0, "cpus_per_trial": 1,
    "gpus_per_trial": 0, "budget": "epochs", "confirm": 0,
}  # fmt: skip
_PAPER_DEFAULTS: dict[str, Any] = {"algorithm": "grid", "scheduler": "none", "confirm": 3}
"""What the space ``paper`` implies."""


def search_command(evidence: Evidence) -> str:
    """Return the command line that repeats a search; places are left out."""
    given = _given(evidence.settings)
    if "seeds" in given:  # for which there is no flag
        options = "".join(f", {key}={value!r}" for key, value in given.items())
        return shlex.join(["python", "-c", f"import tune_mtl; tune_mtl.search({evidence.problem!r}{options})"])
    words = ["tune-mtl", "search", evidence.problem]
    for key, value in given.items():
        if key == "fixed":
            for name, setting in value.items():
                words += ["--set", f"{name}={json.dumps(setting)}"]
        else:
            words += [f"--{key.replace('_', '-')}", _text(value)]
    return shlex.join(words)


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from their defaults."""
    defaults = {**_DEFAULTS, **(_PAPER_DEFAULTS if settings.get("space") == "paper" else {})}
    said = {key: value for key, value in settings.items() if key not in _PRIVATE and value not in (None, "", [], {})}
    return {key: value for key, value in said.items() if value != defaults.get(key)}


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
