"""The trial that won a search: its config, its metrics, its network, and the command that repeats it."""

import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.core.html import paragraph, table
from tune_mtl.core.imports import has_module
from tune_mtl.core.objective import Objective
from tune_mtl.problems.registry import importable
from tune_mtl.tracking.store import client, fetch

if TYPE_CHECKING:
    from tune_mtl.core.model import MultiTaskModel
    from tune_mtl.core.problem import Problem
    from tune_mtl.exporting.deliver import Exported
    from tune_mtl.tracking.store import StoreClient


@dataclass(frozen=True, kw_only=True)
class BestTrial:
    """A trial that won.

    Attributes:
        config: Flat and complete; ``tune_mtl.train(config["problem"], config)`` repeats it exactly.
        metrics: All that its run holds, ``best/...`` at the best epoch.
        run_id: The id of its run in MLflow.
        trial_id: The search's own ordinal.
        outcome: ``completed`` or ``stopped_early``.
        value: The objective at the best epoch; the mean over seeds where the config ran on several.
        seeds: The number of seeds on which the config ran.
        searched: The config keys that differ between the search's trials.
        search: The search's name.
        problem: The problem itself where it was given as an object, in the process that has it; else None: it is
            imported by its name.
    """

    config: dict[str, Any] = field(repr=False)
    metrics: dict[str, float] = field(repr=False)
    run_id: str
    trial_id: str
    outcome: str
    value: float
    seeds: int
    objective: Objective
    tracking_uri: str
    searched: tuple[str, ...] = ("lr", "groups")
    search: str = ""
    problem: "Problem | None" = field(default=None, repr=False, compare=False)

    @property
    def client(self) -> "StoreClient":
        """A client of the store that holds the trial's run."""
        return client(self.tracking_uri)

    @cached_property
    def checkpoint(self) -> Path:
        """The best weights' file, fetched from the run's artifacts.

        Raises:
            UserError: if the run has none.
        """
        try:
            return fetch(self.client, self.run_id, BEST_WEIGHTS, tempfile.mkdtemp(prefix="tune-mtl-"))
        except UserError as error:
            raise UserError(
                f"trial {self.trial_id} of search '{self.search}' has no weights ({BEST_WEIGHTS}) in its run"
                f" {self.run_id}: {error}"
            ) from None

    def load_model(self, problem: "Problem | None" = None) -> "MultiTaskModel":
        """Return the trained network on the CPU, as evaluation saw it, Maximum Roaming's masks included.

        Args:
            problem: The problem itself, where it was defined in a notebook or in ``__main__`` and the search was run
                by another process; default: the one of this process's search, or what its name imports.

        Raises:
            UserError: if the problem cannot be imported, or the run has no weights that fit it.
        """
        from tune_mtl.training import checkpoint
        from tune_mtl.training.config import resolve
        from tune_mtl.training.trial import build_model

        loaded = self._problem(problem)
        config = resolve(loaded, self.config, self.config["problem"])
        try:
            return build_model(loaded, config, checkpoint.load(self.checkpoint)["weights"])
        except RuntimeError as error:  # torch's word for weights of another network
            raise UserError(
                f"the weights of search '{self.search}' do not fit the network of problem '{loaded.name}': has its"
                f" code changed since? {str(error).splitlines()[-1].strip()}"
            ) from None

    def export(
        self,
        *,
        to: str,
        out: str | os.PathLike[str] | None = None,
        register: str | None = None,
        problem: "Problem | None" = None,
    ) -> "Exported":
        """Export the trained network for other programs; see :func:`tune_mtl.export`."""
        from tune_mtl.exporting.deliver import Order, deliver
        from tune_mtl.exporting.sample import sample_inputs

        order = Order.make(to, out, register, f"{self.search}-{self.config['strategy']}")
        loaded = self._problem(problem)
        network = self.load_model(loaded)
        told = {"search": self.search, "trial": self.trial_id, "run": self.run_id, "config": self.config}
        inputs = sample_inputs(loaded)
        return deliver(order, network, inputs, run_id=self.run_id, tracking_uri=self.tracking_uri, told=told)

    def _repr_html_(self) -> str:
        headline = paragraph(f"trial {self.trial_id} of search '{self.search}' ({self.outcome})")
        shown = {"strategy", "lr", "groups", "seed", "epochs", *self.searched}
        config = [(key, value) for key, value in self.config.items() if key in shown]
        values = [(key, value) for key, value in self.metrics.items() if key.startswith("best/")]
        return headline + table(("config", "value"), config) + table(("at the best epoch", "value"), values)

    def _problem(self, given: "Problem | None") -> "Problem":
        """Return the problem that was given now, or with the search, or that its name imports."""
        from tune_mtl.problems.registry import load_problem

        name = str(self.config["problem"])
        if given is None and self.problem is None and not importable(name):
            raise UserError(
                f"problem '{name}' of search '{self.search}' was given as an object and has no name to import it by:"
                " give the object, as in best(...).load_model(problem=...)."
            )
        return load_problem(given or self.problem or name, self.config)

    def train_command(self) -> str | None:
        """Return the command that repeats this trial exactly.

        None where something of it was given as an object that no other process can import.
        """
        return train_command(self.config) if self.kept_from_others() is None else None

    def kept_from_others(self) -> str | None:
        """Return what of the trial no other process can import, its problem or its strategy; None: all can be."""
        if not importable(str(self.config["problem"])):
            return f"problem '{self.config['problem']}'"
        for part in _PARTS:
            origin = self.config.get(f"{part}_from")
            if origin is not None and not has_module(origin):
                return f"{part} '{self.config[part]}'"
        return None


_PARTS = ("strategy", "optimizer", "schedule")
"""What may be brought: beside its name a config says where it is found."""

_FLAGS = (
    "strategy", "lr", "groups", "seed", "epochs", "optimizer", "schedule", "batch_size", "eval_batch_size",
    "evaluate_every", "threads", "metric", "device", "precision",
)  # fmt: skip


def train_command(config: Mapping[str, Any]) -> str:
    """Return ``tune-mtl train ...`` with every value of ``config``."""
    words = ["tune-mtl", "train", str(config["problem"])]
    for key, value in config.items():
        if key == "problem" or (key.removesuffix("_from") in _PARTS and key.endswith("_from")):
            continue
        if key in _PARTS:
            value = config.get(f"{key}_from", value)
        if key in _FLAGS and not isinstance(value, list | dict):
            words += [f"--{key.replace('_', '-')}", str(value)]
        else:
            words += ["--set", f"{key}={json.dumps(value)}"]
    return shlex.join(words)
