"""A hard-parameter-sharing network: one trunk, one head per task."""

from collections.abc import Iterable, Mapping

from torch import nn

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested
from tune_mtl.core.torch_compat import register_child


class Heads(nn.ModuleDict):
    """A ``ModuleDict`` whose keys may be any task name, also those of its own methods (``type``, ``values``)."""

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Register ``module`` under ``name``; a dot cannot be part of it, as it separates state-dict keys."""
        if "." in name or not name:
            raise UserError(f"head name {name!r} cannot be used: it must be non-empty and hold no '.'.")
        register_child(self, name, module)


class MultiTaskModel(nn.Module):
    """Shared ``trunk`` and one head per task: ``prediction_k = heads[k](trunk(inputs))``.

    ``inputs`` and the trunk's output may each be a tensor or a tuple/dict of tensors; they are passed as one argument.
    """

    def __init__(self, trunk: nn.Module, heads: Mapping[str, nn.Module] | nn.ModuleDict) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = Heads(dict(heads.items()))

    def forward(self, inputs: Nested, tasks: Iterable[str] | None = None) -> dict[str, Nested]:
        """Predictions by task, for ``tasks`` (None: all heads) in the order given."""
        features = self.trunk(inputs)
        return {task: self.heads[task](features) for task in (self.heads if tasks is None else tasks)}
