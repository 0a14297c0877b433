"""A problem: WHAT is learned."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.objective import RELATIVE_LOSS, Objective
from tune_mtl.core.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric


class Problem:
    """Tasks, data and a network. Subclass it, or give the parts to the constructor: both read the same.

    Attributes:
        name: Names the MLflow experiment and folders.
        tasks: The tasks, in the order that groups keep.
        defaults: Config values that suit this problem: ``{"epochs": 12, "batch_size": 64}``.
        objective: What trials are judged by. None, the default: ``val/relative_loss`` where every task has a reference
            loss, given or found (see :class:`Task`), else ``val/loss``.
        objective_warning: Why a problem that set no objective is judged by ``val/loss`` after all, in a line; or None.
        spaces: Search spaces by name, beyond the ones every problem has.
        own_options: Arguments of the class that makes the problem which a config may name without ``problem_``.
        paper_options: Those of them with which the paper did its experiments: ``--space paper`` uses them.
        analysed: The names of what ``analyse`` gives.
        prepared: The prepared set (`prepare.prepared_set`) that its data are read from, or None.
        protocol: The name of the rule by which its data are split, where there are several; or None.
        protocol_text: The same in a few words, as a report says it.
    """

    name: str
    tasks: Sequence[Task]
    defaults: Mapping[str, Any] = {}
    objective: Objective | None = None
    objective_warning: str | None = None
    spaces: Mapping[str, Any] = {}
    own_options: ClassVar[tuple[str, ...]] = ()
    paper_options: ClassVar[Mapping[str, Any]] = {}
    analysed: ClassVar[tuple[str, ...]] = ()
    prepared: Any = None
    protocol: str | None = None
    protocol_text: str | None = None

    def __init__(
        self,
        name: str | None = None,
        tasks: Sequence[Task] | None = None,
        model: Callable[..., MultiTaskModel] | None = None,
        data: Callable[[str], Data | None] | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        objective: Objective | None = None,
        spaces: Mapping[str, Any] | None = None,
        to_device: Callable[[Batch, torch.Generator], Batch] | None = None,
        analyse: Callable[[MultiTaskModel, int, Mapping[str, Any]], Mapping[str, float]] | None = None,
        joint_metrics: "Callable[[], Mapping[str, Metric]] | None" = None,
    ) -> None:
        given = {
            "name": name,
            "tasks": tasks,
            "model": model,
            "data": data,
            "defaults": defaults,
            "objective": objective,
            "spaces": spaces,
            "to_device": to_device,
            "analyse": analyse,
            "joint_metrics": joint_metrics,
        }
        for attribute, value in given.items():
            if value is not None:
                setattr(self, attribute, value)

    @property
    def judged_by(self) -> Objective:
        """The objective, or what stands in for it while none is set."""
        if self.objective is not None:
            return self.objective
        known = all(task.reference_loss is not None for task in self.tasks)
        return Objective(RELATIVE_LOSS) if known else Objective()

    def model(self, **options: Any) -> MultiTaskModel:  # noqa: ARG002
        """Return a fresh network on the CPU, initialised from torch's global random state.

        ``options`` are the ``model_...`` keys of the config.
        """
        raise UserError(f"problem '{self.name}' has no model: give Problem(model=...) or define model().")

    def data(self, split: str) -> Data | None:  # noqa: ARG002
        """Return the split ``train``, ``val`` or ``test``; None where there is no test split."""
        raise UserError(f"problem '{self.name}' has no data: give Problem(data=...) or define data(split).")

    def to_device(self, batch: Batch, generator: torch.Generator) -> Batch:  # noqa: ARG002
        """Return a batch, which is on the device already, after its last touch: scaling, augmentation.

        ``generator`` lives on the same device and is the only source of randomness to use. The default changes nothing.
        """
        return batch

    def joint_metrics(self) -> "Mapping[str, Metric]":
        """Return metrics of all tasks together, by name: each is updated with predictions and targets, by task."""
        return {}

    def analyse(
        self,
        model: MultiTaskModel,  # noqa: ARG002
        updates: int,  # noqa: ARG002
        config: Mapping[str, Any],  # noqa: ARG002
    ) -> Mapping[str, float]:
        """Return further values of each evaluation, those named in ``analysed``, from network, updates and config."""
        return {}


_PARTS = ("name", "tasks", "model", "data")
_OPTIONAL_PARTS = ("defaults", "objective", "spaces", "to_device", "analyse", "joint_metrics")


def checked(problem: Any, origin: str, options: Mapping[str, Any] | None = None) -> Problem:
    """Return ``problem`` as a :class:`Problem`; a class or function is called first, any object with its parts will do.

    ``options`` are the arguments of that call.

    Raises:
        UserError: naming ``origin`` and what is missing.
    """
    options = options or {}
    makes = isinstance(problem, type) or inspect.isroutine(problem)
    known = inspect.signature(problem).parameters if makes else {}
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not anything:
            hint = did_you_mean(option, known) if known else "It has none."
            raise UserError(f"problem_{option} is no option of {origin}. {hint}")
    if makes:
        try:
            problem = problem(**options)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{origin} could not be made: {type(error).__name__}: {error}") from error
    missing = [part for part in _PARTS if not hasattr(problem, part)]
    if missing:
        raise UserError(f"{origin} is no Problem: a {type(problem).__name__} without {', '.join(missing)}.")
    names = [task.name for task in problem.tasks]
    if not names or len(set(names)) != len(names):
        raise UserError(f"{origin}: tasks must be one or more with different names, got {names}.")
    if isinstance(problem, Problem):
        return problem
    return Problem(**{part: getattr(problem, part, None) for part in (*_PARTS, *_OPTIONAL_PARTS)})
