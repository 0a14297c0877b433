"""Cityscapes: 7 categories of street scenes, 128x256."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.images import bilinear, decode_labels, decode_rgb, nearest
from tune_mtl.prepare.source import Array, BadSample, Source, check_same_size, content, find, listed

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
_LAST_ID, _LAST_TRAIN_ID, _PLATE = 33, 18, 255
_LOOKS = 20
"""Label maps that are looked at before all are read, to see whether they hold train ids."""
_IMAGE, _LABELS = "_leftImg8bit.png", "_gtFine_labelIds.png"


@dataclass(frozen=True)
class Frame:
    """The files of one frame."""

    image: str
    labels: str


def category_of_id() -> Array:
    """Return the category of each label id: from 1, or 0 for none."""
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
    splits: dict[str, list[Frame]] = {}
    without: list[str] = []
    alone: list[str] = []
    for split in ("train", "val"):
        found = find(images, (split,), f"split '{split}'")
        frames = []
        for city in listed(found):
            shown, of_city = _by_frame(city, _IMAGE), _by_frame(labels / split / city.name, _LABELS)
            for stem, path in shown.items():
                if stem in of_city:
                    frames.append(Frame(str(path), str(of_city.pop(stem))))
                else:
                    without.append(str(path.relative_to(folder)))
            alone += [str(path.relative_to(folder)) for path in of_city.values()]
        if not frames:
            raise UserError(f"{found} has no frames with labels: */*{_IMAGE} and {labels / split}/*/*{_LABELS}.")
        splits[split] = frames
    check_label_ids([frame.labels for frames in splits.values() for frame in frames])
    table = category_of_id()

    def read(frame: Frame) -> Mapping[str, Array]:
        ids = read_ids(frame.labels)
        image = decode_rgb(content(frame.image), frame.image)
        check_same_size({frame.image: image.shape, frame.labels: ids.shape})
        return {
            "images": bilinear(torch.from_numpy(np.ascontiguousarray(image)), size).numpy(),
            "categories": table[nearest(ids, size)],
        }

    left_out = (
        (without, "frames have no labels and are left out"),
        (alone, "label maps have no image and are left out"),
    )
    warnings = tuple(f"{len(files)} {text}, the first {files[0]}." for files, text in left_out if files)
    return Source(
        name="cityscapes",
        splits=splits,
        arrays={"images": ((3, *size), "uint8"), "categories": (size, "uint8")},
        read=read,
        counts={**{split: len(frames) for split, frames in splits.items()}, "without_labels": len(without)},
        notes={
            "categories": list(CATEGORIES),
            "resized": "images bilinear, antialiased; labels nearest, centred",
            "labels": "0 is no category, then the categories from 1",
            "without_labels": without[:100],
        },
        warnings=warnings,
    )


def _by_frame(city: Path, ending: str) -> dict[str, Path]:
    """Return the files of a city's folder that have this ending, by the name of their frame."""
    return {path.name[: -len(ending)]: path for path in listed(city, ending)} if city.is_dir() else {}


def read_ids(path: str) -> Array:
    """Return the label ids of a frame, ``[height, width]``.

    Raises:
        BadSample: for ids that do not exist, and for train ids: those are 0 to 18, and 255 for all that is not trained.
    """
    ids = decode_labels(content(path), path)
    wrong = ids[(ids > _LAST_ID) & (ids != _PLATE)]
    if len(wrong):
        raise BadSample(f"{path} has label id {int(wrong[0])}, but ids go from 0 to {_LAST_ID}")
    if (ids == _PLATE).any() and _only_train_ids(ids):
        raise BadSample(f"{path} holds train ids (0 to {_LAST_TRAIN_ID}, and {_PLATE}), but label ids are needed")
    return ids


def check_label_ids(paths: Sequence[str]) -> None:
    """Refuse a data set whose label maps hold train ids, by a look at some of them.

    Vegetation, sky, traffic signs, people and cars all have label ids above every train id: where none of many street
    scenes has any of them, the ids are others. What cannot be read is left to whoever reads all.

    Raises:
        UserError: naming the first file.
    """
    looked = [paths[index] for index in np.linspace(0, len(paths) - 1, min(_LOOKS, len(paths))).round().astype(int)]
    for path in looked:
        try:
            if not _only_train_ids(decode_labels(content(path), path)):
                return
        except BadSample:
            return
    raise UserError(
        f"{looked[0]} holds train ids: none of {len(looked)} label maps looked at has an id above {_LAST_TRAIN_ID}."
        " Label ids are needed: the *_gtFine_labelIds.png of the download, not *_labelTrainIds.png."
    )


def _only_train_ids(ids: Array) -> bool:
    return not ((ids > _LAST_TRAIN_ID) & (ids != _PLATE)).any()
