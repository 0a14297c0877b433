"""Metrics of label maps, depth and surface normals, as torchmetrics."""

import torch
from torch import Tensor
from torchmetrics import Metric


class PerImageIoU(Metric):
    """Intersection over union per image and class, averaged over the images that contain the class, then over classes.

    Predictions are logits ``[B, C, H, W]``, positive where a class is seen; targets are masks of the same shape. NaN if
    no image contains any class.
    """

    higher_is_better = True
    full_state_update = False
    sums: Tensor
    images: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(classes, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros(classes, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, masks: Tensor) -> None:
        """Count a batch."""
        seen, there = (logits >= 0).flatten(2), masks.bool().flatten(2)
        contained = there.any(dim=2)
        union = (seen | there).sum(dim=2).clamp(min=1)
        ratio = (seen & there).sum(dim=2) / union
        self.sums += (ratio * contained).sum(dim=0)
        self.images += contained.sum(dim=0)

    def compute(self) -> Tensor:
        """Return the mean over classes that occur."""
        occurring = self.images > 0
        return (self.sums[occurring] / self.images[occurring]).mean()


class PixelAccuracy(Metric):
    """The share of pixels whose class is right; where no logit is positive, or no class is set, it is "background"."""

    higher_is_better = True
    full_state_update = False
    right: Tensor
    pixels: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("right", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("pixels", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, masks: Tensor) -> None:
        """Count a batch of logits and masks ``[B, C, H, W]``."""
        most, winner = logits.max(dim=1)
        seen = torch.where(most >= 0, winner, -1)
        there = torch.where(masks.any(dim=1), masks.int().argmax(dim=1), -1)
        self.right += (seen == there).sum()
        self.pixels += seen.numel()

    def compute(self) -> Tensor:
        """Return the number of right pixels over that of all pixels."""
        return self.right / self.pixels


class DepthError(Metric):
    """The mean over known pixels of ``|p - d|``, or of ``|p - d| / d``; NaN if none is known."""

    higher_is_better = False
    full_state_update = False
    total: Tensor
    pixels: Tensor

    def __init__(self, *, relative: bool) -> None:
        super().__init__()
        self.relative = relative
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("pixels", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predicted: Tensor, depth: Tensor) -> None:
        """Count a batch; depth 0 is unknown."""
        known = depth > 0
        error = (predicted - depth).abs()
        if self.relative:
            error = error / torch.where(known, depth, 1.0)
        self.total += torch.where(known, error, 0.0).sum(dtype=torch.float64)
        self.pixels += known.sum()

    def compute(self) -> Tensor:
        """Return the mean."""
        return self.total / self.pixels


_BINS_PER_DEGREE = 1000


class AngleError(Metric):
    """The mean or median angle between predicted and true normals over known pixels, in degrees.

    Angles are counted in bins of a thousandth of a degree; NaN if no pixel is known.

    Args:
        kind: ``mean`` or ``median``.
        encoded: Measure as the paper's scripts do, between vectors encoded to [0, 1] (those are no angles).
    """

    higher_is_better = False
    full_state_update = False
    counts: Tensor
    total: Tensor

    def __init__(self, kind: str = "mean", *, encoded: bool = False) -> None:
        super().__init__()
        self.kind, self.encoded = kind, encoded
        self.add_state("counts", torch.zeros(180 * _BINS_PER_DEGREE + 1, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predicted: Tensor, normals: Tensor) -> None:
        """Count a batch ``[B, 3, H, W]``; a true normal of zeros is unknown."""
        angles = degrees_between(predicted, normals, encoded=self.encoded)[normals.abs().sum(dim=1) > 0]
        self.total += angles.sum(dtype=torch.float64)
        self.counts += torch.bincount((angles * _BINS_PER_DEGREE).long(), minlength=len(self.counts))

    def compute(self) -> Tensor:
        """Return the angle in degrees."""
        pixels = self.counts.sum()
        if self.kind == "mean" or pixels == 0:
            return self.total / pixels
        return torch.searchsorted(self.counts.cumsum(0), pixels / 2).double() / _BINS_PER_DEGREE


class AnglesWithin(AngleError):
    """The share of angles within so many degrees."""

    higher_is_better = True

    def __init__(self, limit: float, *, encoded: bool = False) -> None:
        super().__init__(encoded=encoded)
        self.limit = limit

    def compute(self) -> Tensor:
        """Return the share, from 0 to 1."""
        return self.counts[: int(self.limit * _BINS_PER_DEGREE)].sum() / self.counts.sum()


def cosines(predicted: Tensor, normals: Tensor, *, encoded: bool) -> Tensor:
    """Return dot products ``[B, H, W]`` of unit vectors, or of their encodings ``(n + 1) / 2``."""
    unit = torch.nn.functional.normalize(predicted, dim=1)
    if encoded:
        unit, normals = (unit + 1) / 2, (normals + 1) / 2
    return (unit * normals).sum(dim=1)


def degrees_between(predicted: Tensor, normals: Tensor, *, encoded: bool) -> Tensor:
    """Return the angles ``[B, H, W]``; they are exact near 0 too, where the arc cosine is not."""
    dots = cosines(predicted, normals, encoded=encoded)
    if encoded:
        return torch.rad2deg(torch.arccos(dots.clamp(-1.0, 1.0)))
    unit, true = (torch.nn.functional.normalize(vectors, dim=1) for vectors in (predicted, normals))
    return torch.rad2deg(torch.atan2(torch.linalg.cross(unit, true, dim=1).norm(dim=1), dots))
