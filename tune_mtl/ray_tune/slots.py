"""How many trials may run at once, where trials pause: Ray would count paused ones too."""

import time

import ray

from tune_mtl.ray_tune import compat

_SECONDS = 1.0
"""For so long the size of the cluster is taken to be what it was."""


class Slots:
    """The room for trials: as many as are allowed, else as many as fit on the cluster as it is.

    On a cluster that others have started one more trial waits for room, as in every search of Ray's: that has the
    cluster grow, where it can.

    Args:
        at_most: How many trials run at once; None: as many as fit.
        cpus, gpus: What each trial needs.
    """

    def __init__(self, at_most: int | None, cpus: float = 1, gpus: float = 0) -> None:
        self._at_most, self._needs = at_most, {"CPU": cpus, "GPU": gpus}
        self._looked_at, self._found = -float("inf"), 1

    def count(self) -> int:
        """Return how many there are now, at least one."""
        if self._at_most is not None:
            return self._at_most
        if time.monotonic() - self._looked_at > _SECONDS:
            nodes = ray.nodes()  # type: ignore[no-untyped-call]
            fit = [self._fit(node["Resources"]) for node in nodes if node["Alive"]]
            self._found = max(1, sum(fit) + (0 if compat.started_here() else 1))
            self._looked_at = time.monotonic()
        return self._found

    def _fit(self, resources: dict[str, float]) -> int:
        return min(int(resources.get(name, 0.0) / need + 1e-9) for name, need in self._needs.items() if need)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what was found: another cluster may run the rest of the search."""
        return {**self.__dict__, "_looked_at": -float("inf"), "_found": 1}
