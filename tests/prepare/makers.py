"""Small data sets in the official formats, with known content. Written with Pillow, numpy, scipy and h5py alone."""

import csv
import zipfile
from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from scipy.io import savemat

ATTRIBUTES = [f"Attribute_{index}" for index in range(40)]


def celeba_values(index: int) -> list[int]:
    return [1 if (index * 7 + attribute * 3) % 5 < 2 else -1 for attribute in range(40)]


def celeba_colour(index: int) -> tuple[int, int, int]:
    return (20 * index % 256, 255 - 10 * index % 256, 128)


def write_celeba(folder: Path, count: int = 12, *, form: str = "flat") -> Path:
    """``form``: flat, release (Img, Anno, Eval), zip, csv."""
    names = [f"{index + 1:06d}.jpg" for index in range(count)]
    images = folder / ("Img/img_align_celeba" if form == "release" else "img_align_celeba")
    images.mkdir(parents=True)
    for index, name in enumerate(names):
        Image.new("RGB", (178, 218), celeba_colour(index)).save(images / name, quality=95)
    if form == "zip":
        with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as archive:
            for name in names:
                archive.write(images / name, f"img_align_celeba/{name}")
                (images / name).unlink()
        images.rmdir()
    partition = [0 if index < count // 2 else 1 if index < 3 * count // 4 else 2 for index in range(count)]
    anno, evaluation = (folder / "Anno", folder / "Eval") if form == "release" else (folder, folder)
    anno.mkdir(exist_ok=True)
    evaluation.mkdir(exist_ok=True)
    if form == "csv":
        with (folder / "list_attr_celeba.csv").open("w", newline="") as file:
            rows = [[name, *celeba_values(index)] for index, name in enumerate(names)]
            csv.writer(file).writerows([["image_id", *ATTRIBUTES], *rows])
        with (folder / "list_eval_partition.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["image_id", "partition"], *zip(names, partition, strict=True)])
    else:
        lines = [f"{name} {' '.join(f'{value:2d}' for value in celeba_values(i))}" for i, name in enumerate(names)]
        (anno / "list_attr_celeba.txt").write_text("\n".join([str(count), " ".join(ATTRIBUTES), *lines]) + "\n")
        text = "\n".join(f"{name} {part}" for name, part in zip(names, partition, strict=True))
        (evaluation / "list_eval_partition.txt").write_text(text + "\n")
    return folder


def write_cityscapes(
    folder: Path, train: int = 6, val: int = 3, *, shape: tuple[int, int] = (64, 128), seed: int = 0
) -> Path:
    """Frames of blocks: each quarter of the width has one label id. Every last train frame has no labels."""
    random = np.random.default_rng(seed)
    for split, count, city in (("train", train, "aachen"), ("val", val, "frankfurt")):
        images, labels = folder / "leftImg8bit" / split / city, folder / "gtFine" / split / city
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        for index in range(count):
            stem = f"{city}_{index:06d}_000019"
            ids = np.repeat(random.integers(0, 34, 4), shape[1] // 4)[None].repeat(shape[0], axis=0).astype(np.uint8)
            colours = np.stack([ids * 7, 255 - ids, np.full_like(ids, 10 * index)], axis=-1)
            Image.fromarray(colours).save(images / f"{stem}_leftImg8bit.png")
            if split == "val" or index < count - 1:
                Image.fromarray(ids).save(labels / f"{stem}_gtFine_labelIds.png")
    return folder


def nyu_arrays(index: int, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Image in [0, 1] and normals, channels last; label from -1; depth up to 9.9 m."""
    random = np.random.default_rng(index)
    height, width = shape
    normals = random.standard_normal((height, width, 3))
    return {
        "image": random.integers(0, 256, (height, width, 3)) / 255.0,
        "label": random.integers(-1, 13, (height, width)).astype(np.float64),
        "depth": np.where(random.random((height, width)) < 0.1, 0.0, random.uniform(0.5, 9.9, (height, width))),
        "normal": normals / np.linalg.norm(normals, axis=2, keepdims=True),
    }


def write_nyuv2_npy(
    folder: Path, train: int = 6, val: int = 4, *, shape: tuple[int, int] = (32, 48), channels_first: bool = False
) -> Path:
    for split, count, first in (("train", train, 0), ("val", val, 1000)):
        for index in range(count):
            for part, array in nyu_arrays(first + index, shape).items():
                place = folder / split / part
                place.mkdir(parents=True, exist_ok=True)
                if part == "depth":
                    array = array[None] if channels_first else array[..., None]
                elif channels_first and array.ndim == 3:
                    array = array.transpose(2, 0, 1)
                np.save(place / f"{index}.npy", array)
    return folder


def write_nyuv2_official(
    folder: Path, count: int = 8, *, shape: tuple[int, int] = (48, 64), normals: bool = False, direct: bool = False
) -> Path:
    """``nyu_depth_v2_labeled.mat`` (MATLAB's order of axes), splits, and class mappings of 894, 40 and 13."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(5)
    height, width = shape
    with h5py.File(folder / "nyu_depth_v2_labeled.mat", "w") as file:
        file["images"] = random.integers(0, 256, (count, 3, width, height), dtype=np.uint8)
        file["labels"] = random.integers(0, 895, (count, width, height)).astype(np.uint16)
        file["depths"] = random.uniform(0.7, 9.9, (count, width, height)).astype(np.float32)
    order = random.permutation(count) + 1
    savemat(folder / "splits.mat", {"trainNdxs": order[: count // 2, None], "testNdxs": order[count // 2 :, None]})
    to40 = (np.arange(894) % 40 + 1).astype(np.uint8)
    to13 = (np.arange(40) % 13 + 1).astype(np.uint8)
    names = np.array([f"class {index}" for index in range(13)], dtype=object)
    if direct:
        savemat(folder / "class13Mapping.mat", {"classMapping13": to13[to40.astype(int) - 1][None]})
    else:
        savemat(folder / "class13Mapping.mat", {"classMapping13": {"labels": to13[None], "names": names}})
        savemat(folder / "classMapping40.mat", {"mapClass": to40[None], "className": names})
    if normals:
        (folder / "normals").mkdir()
        for number in range(1, count + 1):
            encoded = np.full((height, width, 3), (128, 128, 255), dtype=np.uint8)
            encoded[:, : number * 2] = (255, 128, 128)
            Image.fromarray(encoded).save(folder / "normals" / f"{number:04d}.png")
    return folder
