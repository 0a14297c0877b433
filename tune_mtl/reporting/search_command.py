"""The command that repeats a search."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from search_spaces.texts import reads_as
from tune_mtl.results.asked import Asked
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.settings import Settings, implied
from tune_mtl.tracking import names
from tune_mtl.tracking.store import storage_folder


def search_command(search: SearchData) -> str:
    """Return the command line that repeats a search; places, which may hold a password, are left out."""
    words = ["tune-mtl", "search", search.problem]
    asked = Settings.asked()
    brought = search.settings.get("contestants") or {}
    brought_space = search.settings.get("space_content") is not None
    if brought_space:
        words += ["--space", str(storage_folder(search.settings.get("storage")) / search.name / names.SPACE_FILE)]
    for key, value in _given(search.settings, asked).items():
        if key == "space" and brought_space:
            continue
        if key == "strategies":
            value = [brought.get(name, name) for name in value]
        flag = asked[key].flag or f"--{key.replace('_', '-')}"
        if isinstance(value, dict):
            said = _values if key == "vary" else json.dumps
            words += [word for name, set_ in value.items() for word in (flag, f"{name}={said(set_)}")]
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


def _values(given: Any) -> str:
    """Return the values of a dimension as ``--search`` reads them."""
    if isinstance(given, dict):
        return json.dumps(given)
    if not isinstance(given, list):
        return str(given)
    plain, quoted = ",".join(map(str, given)), ",".join(map(json.dumps, given))
    return plain if all(isinstance(value, str) for value in given) and reads_as(plain, given) else quoted


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
