"""Cityscapes: 7 categories of street scenes, 128x256."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.images import decode_labels, decode_rgb, nearest
from tune_mtl.prepare.source import Array, BadSample, Source, find

SIZE = (128, 256)
CATEGORIES = {
    "flat": (7, 8),
    "construction": (11, 12, 13),
    "object": (17, 19, 20),
    "nature": (21, 22),
    "sky": (23,),
    "human": (24, 25),
    "vehicle": (26, 27, 28, 31, 32, 33),
}
_LAST_ID, _PLATE = 33, 255
_IMAGE, _LABELS = "_leftImg8bit.png", "_gtFine_labelIds.png"


@dataclass(frozen=True)
class Frame:
    """The files of one frame."""

    image: str
    labels: str


def category_of_id() -> Array:
    """For each label id: its category from 1, 0 for none."""
    table = np.zeros(256, dtype=np.uint8)
    for number, ids in enumerate(CATEGORIES.values(), start=1):
        table[list(ids)] = number
    return table


def open_cityscapes(folder: Path, size: tuple[int, int] = SIZE) -> Source:
    """Find the frames of train and val that have labels.

    Raises:
        UserError: if a folder is missing or empty.
    """
    images = find(folder, ("leftImg8bit",), "images")
    labels = find(folder, ("gtFine",), "labels")
    splits, without = {}, []
    for split in ("train", "val"):
        found = find(images, (split,), f"split '{split}'")
        frames = []
        for path in sorted(found.glob(f"*/*{_IMAGE}")):
            other = labels / split / path.parent.name / (path.name.removesuffix(_IMAGE) + _LABELS)
            if other.exists():
                frames.append(Frame(str(path), str(other)))
            else:
                without.append(str(path.relative_to(folder)))
        if not frames:
            raise UserError(f"{found} has no frames with labels: */*{_IMAGE} and {labels / split}/*/*{_LABELS}.")
        splits[split] = frames
    table = torch.from_numpy(category_of_id())

    def read(frame: Frame) -> Mapping[str, Array]:
        ids = decode_labels(_content(frame.labels), frame.labels)
        wrong = ids[(ids > _LAST_ID) & (ids != _PLATE)]
        if len(wrong):
            raise BadSample(f"{frame.labels} has label id {int(wrong[0])}, but ids go from 0 to {_LAST_ID}")
        return {
            "images": decode_rgb(_content(frame.image), frame.image, size),
            "categories": table[nearest(ids, size).long()].numpy(),
        }

    warnings = (f"{len(without)} frames have no labels and are left out, the first {without[0]}.",) if without else ()
    return Source(
        name="cityscapes",
        splits=splits,
        arrays={"images": ((3, *size), "uint8"), "categories": (size, "uint8")},
        read=read,
        counts={**{split: len(frames) for split, frames in splits.items()}, "without_labels": len(without)},
        notes={
            "categories": list(CATEGORIES),
            "resized": "images bilinear, antialiased; labels nearest",
            "labels": "0 is no category, then the categories from 1",
            "without_labels": without[:100],
        },
        warnings=warnings,
    )


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadSample(f"{path} cannot be read: {error.strerror}") from None
