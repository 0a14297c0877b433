"""A searcher that suggests what is on a list."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from tune_mtl.core.files import write_json


class Listed(Searcher):
    """Suggests the configs of a list, once each, in its order."""

    def __init__(self, configs: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._waiting = [dict(config) for config in configs]

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """Return the next one."""
        return self._waiting.pop(0) if self._waiting else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Learn nothing."""

    def save(self, checkpoint_path: str) -> None:
        """Keep what is left, for a resume."""
        write_json(Path(checkpoint_path), self._waiting)

    def restore(self, checkpoint_path: str) -> None:
        """Go on with what was left."""
        self._waiting = json.loads(Path(checkpoint_path).read_text())
