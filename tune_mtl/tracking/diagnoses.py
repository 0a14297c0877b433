"""What trials saw of their tasks' gradients, gathered by trial until each has ended."""

from collections.abc import Iterable, Mapping
from typing import Any


class Diagnoses:
    """The cosines of every trial that runs, by epoch; they depend on the journal alone, so a kill loses none."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, Any]] = {}
        self._configs: dict[str, Mapping[str, Any]] = {}

    def read(self, records: Iterable[Mapping[str, Any]]) -> "Diagnoses":
        """Take up what a journal tells; returns itself."""
        for record in records:
            told = record["arguments"]
            if record["call"] == "open":
                self.start(told["trial"], told["config"])
            elif record["call"] == "log":
                self.reach(told["trial"], told.get("diagnosis"))
        return self

    def start(self, trial: str, config: Mapping[str, Any]) -> None:
        """Note that a trial was started, or started again; under another config it is another trial."""
        if self._configs.get(trial) != config:
            self._configs[trial] = config
            self._seen.pop(trial, None)

    def reach(self, trial: str, diagnosis: Mapping[str, Any] | None) -> None:
        """Note what a trial has seen since its last report, ``{"tasks": [...], "cosines": {epoch: ...}}``, if it has.

        What a resumed trial reports again takes the place of what was there.
        """
        if diagnosis is None:
            return
        seen = self._seen.setdefault(trial, {"tasks": list(diagnosis["tasks"]), "cosines": {}})
        seen["cosines"] |= diagnosis["cosines"]

    def of(self, trial: str) -> dict[str, Any] | None:
        """Return all that a trial has seen; None if it has not looked."""
        return self._seen.get(trial)
