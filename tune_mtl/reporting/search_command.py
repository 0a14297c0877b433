"""The command that repeats a search."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from tune_mtl.results.search_data import SearchData
from tune_mtl.results.settings import Asked, Settings, implied


def search_command(search: SearchData) -> str:
    """Return the command line that repeats a search; places, which may hold a password, are left out."""
    words = ["tune-mtl", "search", search.problem]
    asked = Settings.asked()
    for key, value in _given(search.settings, asked).items():
        flag = asked[key].flag or f"--{key.replace('_', '-')}"
        if isinstance(value, dict):
            words += [word for name, set_ in value.items() for word in (flag, f"{name}={json.dumps(set_)}")]
        elif isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, _text(value)]
    return shlex.join(words)


def _given(settings: Mapping[str, Any], asked: Mapping[str, Asked]) -> dict[str, Any]:
    """Return what is otherwise than it would be if nobody said so."""
    defaults = Settings.defaults() | implied({key: settings[key] for key in ("space", "replicates") if key in settings})
    del defaults["replicates"]  # it follows from the problem and from what else is given
    if "replicates" not in settings:  # an earlier version's, which did not confirm by default
        del defaults["confirm"]
    said = {key: settings.get(key) for key, how in asked.items() if how.repeated}
    return {
        key: value
        for key, value in said.items()
        if value not in (None, "", [], {}) and (key not in defaults or value != defaults[key])
    }


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
