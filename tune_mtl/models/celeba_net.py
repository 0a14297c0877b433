"""The paper's network for the 40 attributes of CelebA: 5,198,184 parameters."""

from collections.abc import Sequence

from torch import nn

from tune_mtl.core.model import MultiTaskModel
from tune_mtl.models.blocks import conv_bn_relu, scaled

_WIDTHS = (64, 128, 128, 256, 256, 512, 512)
_POOL_AFTER = (1, 3, 5)
_FEATURES = 512


def celeba_net(tasks: Sequence[str], channels: int = 64) -> MultiTaskModel:
    """Return seven convolutions, global average pooling, two fully connected layers; one logit per task.

    Input ``[B, 3, H, W]`` (64x64 in the paper); each head gives ``[B]``. BatchNorm uses batch statistics always, as in
    the paper, so batches of one sample cannot be evaluated. ``channels``: of the first layer; the others keep their
    proportion to it.
    """
    layers: list[nn.Module] = []
    before, features = 3, scaled(_FEATURES, channels)
    for number, width in enumerate(_WIDTHS, start=1):
        layers.append(conv_bn_relu(before, scaled(width, channels), track_running_stats=False))
        if number in _POOL_AFTER:
            layers.append(nn.MaxPool2d(2))
        before = scaled(width, channels)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    for _ in range(2):
        layers += [
            nn.Linear(before, features),
            nn.BatchNorm1d(features, track_running_stats=False),
            nn.ReLU(inplace=True),
        ]
        before = features
    heads = {task: nn.Sequential(nn.Linear(features, 1), nn.Flatten(0)) for task in tasks}
    return MultiTaskModel(nn.Sequential(*layers), heads)
