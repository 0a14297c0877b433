"""Decoding by Pillow, resizing: images by torchvision, maps of labels or measurements by centred nearest neighbour."""

import io

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.transforms.v2.functional import InterpolationMode, resize

from tune_mtl.prepare.source import Array, BadSample

_JPEG = b"\xff\xd8"
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_BIT_DEPTH = 24
"""Where a PNG says how many bits a channel has; Pillow reads 16 of them as 8 in colour images, and does not tell."""
_OF_IMAGES = "images have 8 (which of the 16 are worth keeping, only you know)"


def decode_rgb(content: bytes, where: str, size: tuple[int, int] | None = None) -> Array:
    """Return a JPEG or PNG as uint8 ``[3, height, width]``, resized bilinearly to ``size`` (None: as it is).

    Raises:
        BadSample: if it cannot be decoded, or has 16 bits per channel.
    """
    _check_bits(content, where, _OF_IMAGES)
    image = _planes(_decode(content, where))
    return (image if size is None else bilinear(image, size)).numpy()


def decode_labels(content: bytes, where: str) -> Array:
    """Return a grey or palette PNG as uint8 ``[height, width]``, as it is.

    Raises:
        BadSample: if it cannot be decoded, is a JPEG, has colours, or has 16 bits per pixel.
    """
    if content.startswith(_JPEG):
        raise BadSample(f"{where} is a JPEG, which blurs label ids: labels are PNGs")
    _check_bits(content, where, "label ids have 8 (instanceIds have 16: are these instances?)")
    image = _decode(content, where)
    if image.mode == "P" and _is_grey(image):  # as tools that make files smaller write them: ids are the grey levels
        image = image.convert("L")
    if image.mode not in ("L", "P"):
        raise BadSample(f"{where} is an image of mode {image.mode}, but labels are one grey channel of ids")
    return np.asarray(image)


def decode_photograph(content: bytes, where: str, size: tuple[int, int]) -> Array:
    """Return what :func:`decode_rgb` does, turned as its EXIF data say: as people see it.

    Raises:
        BadSample: as :func:`decode_rgb`.
    """
    _check_bits(content, where, _OF_IMAGES)
    turned = ImageOps.exif_transpose(_decode(content, where))
    return bilinear(_planes(turned), size).numpy()


def decode_vectors(content: bytes, where: str) -> Array:
    """Return an image that holds three numbers for each pixel, as uint8 ``[3, height, width]``.

    Raises:
        BadSample: if it cannot be decoded, has no colours, or has 16 bits per channel.
    """
    _check_bits(content, where, _OF_IMAGES)
    image = _decode(content, where)
    if image.mode not in ("RGB", "RGBA", "P"):
        raise BadSample(f"{where} is an image of mode {image.mode}, but vectors need the three channels of RGB")
    return _planes(image).numpy()


def _planes(image: Image.Image) -> Tensor:
    rgb = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    return torch.from_numpy(np.ascontiguousarray(rgb.transpose(2, 0, 1)))


def _is_grey(image: Image.Image) -> bool:
    red, green, blue = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    return bool((red == green).all() and (green == blue).all())


def _check_bits(content: bytes, where: str, rule: str) -> None:
    if content.startswith(_PNG) and content[_PNG_BIT_DEPTH : _PNG_BIT_DEPTH + 1] == b"\x10":
        raise BadSample(f"{where} is a PNG of 16 bits per channel, but {rule}")


def _decode(content: bytes, where: str) -> Image.Image:
    """Return the whole image, in its own mode."""
    if not content:
        raise BadSample(f"{where} is empty")
    try:
        image = Image.open(io.BytesIO(content), formats=("JPEG", "PNG"))
        image.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # Pillow raises all of them
        unknown = isinstance(error, UnidentifiedImageError)
        reason = "it is neither a JPEG nor a PNG" if unknown else str(error)
        raise BadSample(f"{where} cannot be decoded: {reason}") from None
    return image


def bilinear(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Return ``[channels, height, width]`` in another size, antialiased."""
    if tuple(image.shape[-2:]) == size:
        return image
    resized: Tensor = resize(image, list(size), InterpolationMode.BILINEAR, antialias=True)
    return resized


def nearest(values: Array, size: tuple[int, int]) -> Array:
    """Return ``[..., height, width]`` in another size, without new values.

    Output pixel i takes source pixel floor((i + 0.5) * source / output), the one under its centre, so that maps stay
    where bilinear resizing leaves the image. Computed with whole numbers: torch's ``nearest-exact`` misses some pixels
    by rounding, its ``nearest`` takes the first pixel of every block.
    """
    rows, columns = (_centres(length, wanted) for length, wanted in zip(values.shape[-2:], size, strict=True))
    return values[..., rows[:, None], columns]


def _centres(length: int, wanted: int) -> Array:
    return (2 * np.arange(wanted) + 1) * length // (2 * wanted)


def unit(vectors: Array) -> Array:
    """Return ``[3, height, width]`` scaled to length 1; zero vectors stay."""
    lengths = np.linalg.norm(vectors, axis=0, keepdims=True)
    return np.where(lengths > 0, vectors / np.maximum(lengths, 1e-12), 0.0)
