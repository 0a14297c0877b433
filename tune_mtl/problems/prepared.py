"""What the problems on prepared sets share: where the set is, and which rows are which split."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from tune_mtl.core.errors import UserError
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.prepare.prepared_set import MappedData, open_prepared

Protocol = Literal["holdout", "paper"]
_HOLDOUT_SHARE, _HOLDOUT_SEED = 0.1, 0


class PreparedProblem(Problem):
    """A problem on a prepared set.

    Where the set has no third split, the ``holdout`` protocol takes a fixed tenth of train as validation and the
    official other split as test; ``paper`` selects on that one, as the paper did, and has no test.

    Args:
        protocol: ``holdout`` or ``paper``.
        data: The folder of prepared sets; default: ``TUNE_MTL_DATA``, else ``data`` here.
    """

    contents: ClassVar[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]
    """Splits in their order, arrays of each, and notes that the prepared set has."""
    objective = Objective("val/loss", "min")
    own_options: ClassVar[tuple[str, ...]] = ("protocol",)
    paper_options: ClassVar[Mapping[str, Any]] = {"protocol": "paper"}

    def __init__(self, protocol: Protocol = "holdout", data: str | None = None, **parts: Any) -> None:
        if protocol not in ("holdout", "paper"):
            raise UserError(f"protocol={protocol!r} must be holdout or paper.")
        self.protocol = protocol
        self.prepared = open_prepared(self.name, data)
        self.prepared.require(*self.contents)  # what is missing is said now, not when it is due after training
        self.protocol_text = self._describe_protocol()
        super().__init__(**parts)

    def _describe_protocol(self) -> str:
        """Return what the protocol means for this set, in a few words."""
        splits = self.contents[0]
        if len(splits) == 3:
            return "official: selected on the official val, tested on the official test split"
        train, other = splits
        if self.protocol == "paper":
            return f"paper: all of {train} is trained on, selected on the official {other} split; there is no test"
        return f"holdout: selected on a fixed tenth of {train}, tested on the official {other} split"

    def data(self, split: str) -> MappedData | None:
        """Return the split's rows of the mapped arrays."""
        found = self._rows(split)
        if found is None:
            return None
        official, rows = found
        infos = self.prepared.manifest.splits[official]
        return MappedData(self.prepared.arrays(official), rows, "/".join(info.sha256[:12] for info in infos.values()))

    def _rows(self, split: str) -> "tuple[str, np.ndarray[Any, np.dtype[np.int64]] | None] | None":
        """Return the official split and the rows of it."""
        splits = self.contents[0]
        if len(splits) == 3:
            return split, None
        train, other = splits
        if self.protocol == "paper":
            return {"train": (train, None), "val": (other, None), "test": None}[split]
        if split == "test":
            return other, None
        count = next(iter(self.prepared.manifest.splits[train].values())).shape[0]
        held = max(1, round(_HOLDOUT_SHARE * count))
        order = np.random.default_rng(_HOLDOUT_SEED).permutation(count)
        return train, np.sort(order[:held] if split == "val" else order[held:])
