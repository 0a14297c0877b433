"""`glyphs`: 40 binary attributes of characters, from fonts that are installed. No download."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import features

from tune_mtl.core.data import TensorData
from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.task import Task
from tune_mtl.models.glyph_net import glyph_net
from tune_mtl.problems.binary_metrics import binary_metrics
from tune_mtl.problems.glyphs.attributes import ATTRIBUTES
from tune_mtl.problems.glyphs.fonts import digest_of_fonts, font_files
from tune_mtl.problems.glyphs.images import draw_all
from tune_mtl.problems.glyphs.splits import rows_of_splits

CHECKSUM = "078258b8390a420e5ca90745ab1af91ef1c549991d6702401b475e8360ddf258"
"""Of the pictures and labels that all documented figures are about."""

FONTS = "52a1bbe8790bfe496387502fddfeeb3fef399f91db578cc9912c8a5cb76c37fc"
"""The checksum of the fonts that they were drawn with."""

FONTS_ARE_OF = "3.11.2"
"""A version of matplotlib that has them."""

logger = logging.getLogger(__name__)


class Glyphs(Problem):
    """Each attribute is a task: binary cross-entropy, error and F1. No character is in two splits.

    Args:
        characters: Use so many characters; default: all that the fonts have.
    """

    name = "glyphs"
    defaults: Mapping[str, Any] = {
        "epochs": 6,
        "batch_size": 200,
        "eval_batch_size": 500,
        "threads": 1,
        "channels_last": True,
    }
    objective = Objective("val/relative_loss", "min")

    def __init__(self, characters: int | None = None) -> None:
        if characters is not None and (type(characters) is not int or characters < 1):
            raise UserError(f"problem_characters={characters} must be a whole number, 1 or more.")
        font_files()  # that they are missing is said now
        self._characters = characters
        super().__init__(
            tasks=[Task(one.name, F.binary_cross_entropy_with_logits, binary_metrics) for one in ATTRIBUTES]
        )

    def model(self, channels: int = 16) -> MultiTaskModel:  # type: ignore[override]
        """Return the small convolutional network; ``channels`` scales its width."""
        return glyph_net([task.name for task in self.tasks], channels)

    def data(self, split: str) -> TensorData:
        """Return 6610, 2107 or 2159 images ``[n, 1, 16, 16]`` in [0, 1], and a target of 0.0 or 1.0 for each task."""
        if split == "train":
            warn_of_other_images()
        return _split(split, self._characters)


@cache
def _split(split: str, characters: int | None) -> TensorData:
    drawn, rows = draw_all(), rows_of_splits(characters)[split]
    images = torch.from_numpy(drawn.images[rows].astype(np.float32) / 255).unsqueeze(1)
    labels = torch.from_numpy(drawn.labels[rows].astype(np.float32))
    return TensorData(images, {one.name: labels[:, number].clone() for number, one in enumerate(ATTRIBUTES)})


@cache
def warn_of_other_images() -> None:
    """Say once in a process that figures cannot be compared with those of the documentation, and why."""
    if draw_all().checksum() == CHECKSUM:
        return
    if digest_of_fonts() == FONTS:
        why = f"Pillow {version('pillow')} with FreeType {features.version('freetype2')} draws them otherwise"
    else:
        here = f"matplotlib {version('matplotlib')} in {font_files()[0].parent}"
        why = f"the fonts of {here} are others than those that come with {FONTS_ARE_OF}"
    logger.warning("warning: the images of glyphs are not those of the documented figures: %s.", why)
