"""A problem and what trains it on their way to workers: by name or by value, the problem's tensors once per node."""

import uuid
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from torch import Tensor

from tune_mtl.core.data import Batch, Data, TensorData
from tune_mtl.core.imports import findable, has_module
from tune_mtl.core.nested import Nested, map_tensors, tensors
from tune_mtl.core.problem import Problem
from tune_mtl.problems.registry import load_problem
from tune_mtl.strategies.admission import admit
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.parts import Part, admit_part, brought_part, reference_of_part
from tune_mtl.strategies.registry import reference_of, strategy_class
from tune_mtl.training.references.find import references_of, with_references

_SPLITS = ("train", "val")


@dataclass(frozen=True)
class SharedProblem:
    """What workers need to have the problem: ``load()`` gives it back.

    Attributes:
        token: Tells one from another.
        name: How configs name the problem.
        directory: Where the user's modules were found.
        problem: The problem itself where it has no importable name.
        splits: References to the splits that are plain tensors; all workers of a node map one copy from Ray's object
            store.
        options: What it is made with, ``problem_...``.
        references: Reference losses by task, as the driver has them: workers find none themselves.
        strategies: The strategies that no worker can import, of a notebook: their classes.
        parts: Optimizers and schedules likewise: which of both, and the class or function.
    """

    token: str
    name: str
    directory: str
    problem: Problem | None = None
    splits: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    references: dict[str, float] = field(default_factory=dict)
    strategies: tuple[type[Strategy[Any]], ...] = ()
    parts: tuple[tuple[Part, Any], ...] = ()

    @classmethod
    def put(
        cls,
        problem: Problem,
        name: str,
        options: Mapping[str, Any],
        strategies: Iterable[str] = (),
        parts: Iterable[tuple[Part, str]] = (),
    ) -> "SharedProblem":
        """Share ``problem``, made with ``options``, and what has these names (called once, by the driver)."""
        splits = {}
        for split in _SPLITS:
            data = problem.data(split)
            if isinstance(data, TensorData) and _mappable(data.everything):
                splits[split] = ray.put(map_tensors(_as_array, tuple(data.everything)))
        by_value = None if _importable(problem, name, options) else problem
        token, known = uuid.uuid4().hex, references_of(problem)
        own = {strategy: reference_of(strategy) for strategy in strategies}
        alone = [name for name, reference in own.items() if reference is not None and not has_module(reference)]
        classes = tuple(map(strategy_class, alone))
        found = [(part, own_name, reference_of_part(part, own_name)) for part, own_name in parts]
        objects = tuple(
            (part, brought_part(part, own_name))
            for part, own_name, reference in found
            if reference is not None and not has_module(reference)
        )
        return cls(token, name, str(Path.cwd()), by_value, splits, dict(options), known, classes, objects)

    def load(self) -> Problem:
        """Return the problem in this process, made once; from then on its strategies are known here too."""
        if self.token not in _loaded:
            findable(self.directory)
            for strategy in self.strategies:
                admit(strategy)
            for part, brought in self.parts:
                admit_part(part, brought)
            _loaded.clear()
            _loaded[self.token] = self._make()
        return _loaded[self.token]

    def _make(self) -> Problem:
        problem = self.problem or load_problem(self.name, self.options, directory=self.directory)
        problem = with_references(problem, self.references)
        own = problem.data
        shared = {split: _mapped(reference) for split, reference in self.splits.items()}

        def data(split: str) -> Data | None:
            return shared[split] if split in shared else own(split)

        problem.data = data  # type: ignore[method-assign]
        return problem


_loaded: dict[str, Problem] = {}
"""The problem of this process, by its token: trials that share an actor share it."""


def _importable(problem: Problem, name: str, options: Mapping[str, Any]) -> bool:
    """Return whether a worker gets the same problem by importing ``name``."""
    if name.startswith("__main__:"):  # a worker's is another program
        return False
    try:
        return type(load_problem(name, options)) is type(problem)
    except Exception:
        return False


def _mappable(nested: Nested) -> bool:
    return all(tensor.device.type == "cpu" and tensor.dtype != torch.bfloat16 for tensor in tensors(tuple(nested)))


def _as_array(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy()


def _mapped(reference: Any) -> TensorData:
    """Tensors over the object store's memory: read-only, as training data are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return TensorData(*Batch(*_as_tensors(ray.get(reference))))


def _as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        return {key: _as_tensors(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_as_tensors(item) for item in value)
    return value
