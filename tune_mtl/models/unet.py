"""The paper's network for NYUv2 and Cityscapes: a U-Net with one 1x1 convolution per task."""

from collections.abc import Mapping
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tune_mtl.core.model import MultiTaskModel
from tune_mtl.models.blocks import conv_bn_relu, scaled

_DOWN = (64, 128, 256, 512, 512)
_UP = ((1024, 512, 256), (512, 256, 128), (256, 128, 64), (128, 64, 64))


def _twice(inputs: int, middle: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(conv_bn_relu(a, b, bias=True, track_running_stats=False) for a, b in ((inputs, middle), (middle, outputs)))
    )


class UNetTrunk(nn.Module):
    """Five levels down, four up: ``[B, 3, H, W]`` to ``[B, 64, H, W]``; H and W are multiples of 16."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        widths = (3, *(scaled(width, channels) for width in _DOWN))
        self.down = nn.ModuleList(_twice(a, b, b) for a, b in pairwise(widths))
        self.up = nn.ModuleList(_twice(*(scaled(width, channels) for width in triple)) for triple in _UP)

    def forward(self, images: Tensor) -> Tensor:
        """Return the last feature map, at full resolution."""
        levels: list[Tensor] = []
        features = images
        for level, block in enumerate(self.down):
            features = block(features if level == 0 else F.max_pool2d(features, 2))
            levels.append(features)
        for block, skip in zip(self.up, reversed(levels[:-1]), strict=True):
            larger = F.interpolate(features, scale_factor=2, mode="bilinear", align_corners=True)
            features = block(torch.cat([skip, larger], dim=1))
        return features


def unet(outputs: Mapping[str, int], channels: int = 64) -> MultiTaskModel:
    """Return the U-Net with a head of so many maps for each task. BatchNorm uses batch statistics always.

    ``channels``: of the first layer (64 in the paper); the others keep their proportion to it.
    """
    heads = {task: nn.Conv2d(scaled(_UP[-1][-1], channels), maps, 1) for task, maps in outputs.items()}
    return MultiTaskModel(UNetTrunk(channels), heads)
