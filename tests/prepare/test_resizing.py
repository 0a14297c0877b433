"""Every resized array against an independent computation, on patterns and on photographs; all parts stay aligned."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import skimage
from PIL import Image
from scipy.io import loadmat

from tests.prepare import makers
from tests.prepare.test_prepare import prepared
from tune_mtl.prepare.images import nearest

PHOTOGRAPHS = Path(skimage.__file__).parent / "data"


def centred(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The pixel under each output pixel's centre, one by one; ``[h, w, ...]``."""
    out = np.empty((*size, *values.shape[2:]), values.dtype)
    for y in range(size[0]):
        for x in range(size[1]):
            out[y, x] = values[
                (2 * y + 1) * values.shape[0] // (2 * size[0]), (2 * x + 1) * values.shape[1] // (2 * size[1])
            ]
    return out


def triangle(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Antialiased bilinear shrinking in float64: a triangle as wide as two output pixels, about each centre."""

    def weights(source: int, wanted: int) -> np.ndarray:
        scale = max(1.0, source / wanted)
        centres = (np.arange(wanted) + 0.5) * source / wanted
        found = np.maximum(0.0, 1 - np.abs(np.arange(source) + 0.5 - centres[:, None]) / scale)
        return found / found.sum(axis=1, keepdims=True)

    shrunk = np.tensordot(weights(image.shape[0], size[0]), image, axes=(1, 0))
    return np.tensordot(weights(image.shape[1], size[1]), shrunk, axes=(1, 1)).transpose(1, 0, 2)


def diagonal(shape: tuple[int, int]) -> np.ndarray:
    y, x = np.mgrid[: shape[0], : shape[1]]
    return (x * shape[0] > y * shape[1]).astype(np.uint8)


def checkerboard(shape: tuple[int, int]) -> np.ndarray:
    y, x = np.mgrid[: shape[0], : shape[1]]
    return ((y // 3 + x // 5) % 2).astype(np.uint8)


def photograph(shape: tuple[int, int]) -> np.ndarray:
    image = Image.open(PHOTOGRAPHS / "coffee.png").convert("L").resize(shape[::-1])
    return (np.asarray(image) > 100).astype(np.uint8)


def stripes(shape: tuple[int, int]) -> np.ndarray:
    y, x = np.mgrid[: shape[0], : shape[1]]
    return ((2 * y + x) // 4 % 2).astype(np.uint8)


PATTERNS = pytest.mark.parametrize("pattern", [diagonal, checkerboard, stripes, photograph])
SHAPES = pytest.mark.parametrize("shape", [(128, 256), (61, 97), (11, 19), (47, 20)])
"""Of the source: shrunk by whole numbers, by odd ones, enlarged, shrunk in height and enlarged in width."""


def as_colour(pattern: np.ndarray) -> np.ndarray:
    return np.stack([pattern * 200, 255 - pattern * 200, pattern * 100 + 50], axis=-1).astype(np.uint8)


def aligned(image: np.ndarray, pattern: np.ndarray) -> float:
    """How many pixels a label map and a two-coloured image agree on, where the image shows either colour purely."""
    red = image[0].astype(float)
    pure = (red < 10) | (red > 190)
    return float(((red > 100) == (pattern > 0))[pure].mean())


@pytest.mark.parametrize(
    ("source", "wanted"), [(16, 218), (40, 92), (480, 288), (1024, 128), (427, 96), (7, 7), (5, 1)]
)
def test_nearest_takes_the_pixel_under_the_centre(source, wanted):
    exact = [(2 * index + 1) * source // (2 * wanted) for index in range(wanted)]
    assert nearest(np.arange(source)[None], (1, wanted))[0].tolist() == exact


@PATTERNS
@SHAPES
def test_cityscapes_labels_stay_where_the_image_is(tmp_path, pattern, shape):
    source, size = makers.write_cityscapes(tmp_path / "source", 2, 1), (16, 32)
    shown = pattern(shape)
    for path in (source / "leftImg8bit").glob("*/*/*.png"):
        Image.fromarray(as_colour(shown)).save(path)
    for path in (source / "gtFine").glob("*/*/*.png"):
        Image.fromarray(np.where(shown > 0, 26, 7).astype(np.uint8)).save(path)
    arrays = prepared("cityscapes", source, tmp_path / "out", size="16x32").arrays("train")
    expected = centred(np.where(shown > 0, 7, 1).astype(np.uint8), size)  # the numbers of vehicle and flat
    assert np.array_equal(arrays["categories"][0], expected)
    reference = triangle(as_colour(shown).astype(float), size).transpose(2, 0, 1)
    assert np.abs(arrays["images"][0] - reference).max() <= 1.0
    if pattern is diagonal:
        assert aligned(arrays["images"][0], arrays["categories"][0] == 7) == 1.0


@PATTERNS
@SHAPES
def test_nyuv2_maps_stay_where_the_image_is(tmp_path, pattern, shape):
    source, size = makers.write_nyuv2_npy(tmp_path / "source", 1, 1), (16, 32)
    shown = pattern(shape)
    normal = np.where(shown[..., None] > 0, [1.0, 0.0, 0.0], [0.0, 0.0, -1.0])
    normal[:6] = 0.0
    parts = {
        "image": as_colour(shown),
        "label": np.where(shown > 0, 5, -1),
        "depth": np.where(shown > 0, 2.0, 0.0),
        "normal": normal,
    }
    for part, array in parts.items():
        np.save(source / "train" / part / "0.npy", array)
    arrays = {k: v[0] for k, v in prepared("nyuv2", source, tmp_path / "out", size="16x32").arrays("train").items()}
    assert np.array_equal(arrays["labels"], np.where(centred(shown, size) > 0, 5, 255))
    assert np.array_equal(arrays["depth"], np.where(centred(shown, size) > 0, 2.0, 0.0).astype(np.float16))
    assert np.array_equal(arrays["normals"], centred(normal, size).transpose(2, 0, 1).astype(np.float16))
    assert np.abs(arrays["images"] - triangle(as_colour(shown).astype(float), size).transpose(2, 0, 1)).max() <= 1.0


@pytest.mark.parametrize("shape", [(48, 64), (37, 53), (9, 14)])
def test_all_parts_of_an_official_scene_are_the_same_pixels(tmp_path, shape):
    source = makers.write_nyuv2_official(tmp_path / "source", 2, shape=shape, normals=True)
    arrays = prepared("nyuv2", source, tmp_path / "out", size="16x32").arrays("train")
    number = int(loadmat(source / "splits.mat")["trainNdxs"].flat[0])
    with h5py.File(source / "nyu_depth_v2_labeled.mat") as file:
        image, ids, depth = (file[name][number - 1].T for name in ("images", "labels", "depths"))
    pixels = np.asarray(Image.open(source / "normals" / f"{number:04d}.png"))
    ids, depth, normals = (centred(values, (16, 32)) for values in (ids.astype(int), depth, pixels / 127.5 - 1))
    assert np.array_equal(arrays["labels"][0], np.where(ids == 0, 255, (ids - 1) % 40 % 13))
    assert np.array_equal(arrays["depth"][0], depth.astype(np.float16))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    assert np.abs(arrays["normals"][0] - normals.transpose(2, 0, 1)).max() < 1e-3
    assert np.abs(arrays["images"][0] - triangle(image.astype(float), (16, 32)).transpose(2, 0, 1)).max() <= 1.0


@pytest.mark.parametrize("size", ["64x64", "40x72"])
@pytest.mark.parametrize("name", ["astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg"])
def test_photographs_are_within_a_grey_level_of_a_reference(tmp_path, name, size):
    source = makers.write_celeba(tmp_path / "source", 4)
    image = Image.open(PHOTOGRAPHS / name).convert("RGB")
    image.save(tmp_path / "first.png")
    (tmp_path / "first.png").rename(source / "img_align_celeba" / "000001.jpg")  # told by content, not by name
    got = prepared("celeba", source, tmp_path / "out", size=size).arrays("train")["images"][0]
    expected = triangle(np.asarray(image).astype(float), tuple(map(int, size.split("x"))))
    assert np.abs(got - expected.transpose(2, 0, 1)).max() <= 1.0
