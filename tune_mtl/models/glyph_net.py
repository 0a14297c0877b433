"""The network of `glyphs`: small enough for forty passes per mini-batch on a CPU."""

from collections.abc import Sequence

from torch import nn

from tune_mtl.core.model import MultiTaskModel
from tune_mtl.models.blocks import conv_bn_relu


def glyph_net(tasks: Sequence[str], channels: int = 16) -> MultiTaskModel:
    """Return three convolutions and a fully connected layer; one logit per task.

    Input ``[B, 1, 16, 16]``; each head gives ``[B]``. ``channels``: of the first layer; the others have twice as many.
    """
    wide, features = 2 * channels, 4 * channels
    trunk = nn.Sequential(
        conv_bn_relu(1, channels, stride=2),
        conv_bn_relu(channels, wide, stride=2),
        conv_bn_relu(wide, wide),
        nn.Flatten(),
        nn.Linear(wide * 4 * 4, features, bias=False),
        nn.BatchNorm1d(features),
        nn.ReLU(inplace=True),
    )
    heads = {task: nn.Sequential(nn.Linear(features, 1), nn.Flatten(0)) for task in tasks}
    return MultiTaskModel(trunk, heads)
