"""How yes-or-no tasks are measured."""

from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryF1Score


class BinaryError(BinaryAccuracy):
    """The share of wrong decisions."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """Return the error, which is 1 - accuracy."""
        return 1.0 - super().compute()


def binary_metrics() -> MetricCollection:
    """Return error and F1 at a probability of one half."""
    return MetricCollection(
        {"error": BinaryError(validate_args=False), "f1": BinaryF1Score(validate_args=False)}, compute_groups=False
    )
