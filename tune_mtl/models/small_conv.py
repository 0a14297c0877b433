"""The network of `multidigits`: small enough to train in seconds on a CPU."""

from torch import nn

from tune_mtl.core.model import MultiTaskModel
from tune_mtl.models.blocks import conv_bn_relu


def small_conv_net(height: int, width: int, classes: int, segments: int, channels: int = 32) -> MultiTaskModel:
    """Return three convolutions at half resolution, with heads for two digits, their sum and a pixel map.

    Input ``[B, 1, height, width]`` (both even); ``left`` and ``right`` give ``[B, classes]`` logits, ``sum`` ``[B]``,
    ``segment`` ``[B, segments, height, width]`` logits. About 14,000 shared weights with 32 channels.
    """
    trunk = nn.Sequential(
        conv_bn_relu(1, channels // 2, stride=2),
        conv_bn_relu(channels // 2, channels),
        conv_bn_relu(channels, channels),
    )
    features = channels * (height // 2) * (width // 2)
    heads = {
        "left": nn.Sequential(nn.Flatten(), nn.Linear(features, classes)),
        "right": nn.Sequential(nn.Flatten(), nn.Linear(features, classes)),
        "sum": nn.Sequential(nn.Flatten(), nn.Linear(features, 1), nn.Flatten(0)),
        "segment": nn.Sequential(nn.Conv2d(channels, 4 * segments, 1), nn.PixelShuffle(2)),
    }
    return MultiTaskModel(trunk, heads)
