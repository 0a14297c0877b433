"""Building blocks that several networks share."""

from torch import nn


def conv_bn_relu(
    inputs: int, outputs: int, *, stride: int = 1, bias: bool = False, track_running_stats: bool = True
) -> nn.Sequential:
    """Return a padded 3x3 convolution, BatchNorm, ReLU; the size is divided by ``stride``."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=bias),
        nn.BatchNorm2d(outputs, track_running_stats=track_running_stats),
        nn.ReLU(inplace=True),
    )


def scaled(width: int, channels: int) -> int:
    """Return a layer's width in a network whose first layer has ``channels`` instead of 64."""
    return max(1, width * channels // 64)
