"""Decoding and resizing, by torchvision."""

import numpy as np
import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2.functional import InterpolationMode, resize

from tune_mtl.prepare.source import Array, BadSample


def decode_rgb(content: bytes, where: str, size: tuple[int, int]) -> Array:
    """A JPEG or PNG as uint8 ``[3, height, width]``, resized bilinearly.

    Raises:
        BadSample: if it cannot be decoded.
    """
    return bilinear(_decode(content, where, ImageReadMode.RGB), size).numpy()


def decode_labels(content: bytes, where: str) -> Tensor:
    """A grey PNG as uint8 ``[height, width]``, as it is.

    Raises:
        BadSample: if it cannot be decoded.
    """
    return _decode(content, where, ImageReadMode.UNCHANGED)[0]


def _decode(content: bytes, where: str, mode: ImageReadMode) -> Tensor:
    try:
        if not content:
            raise BadSample(f"{where} is empty")
        decoded: Tensor = decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8), mode)
    except RuntimeError as error:
        raise BadSample(f"{where} cannot be decoded: {str(error).splitlines()[0]}") from None
    return decoded


def bilinear(image: Tensor, size: tuple[int, int]) -> Tensor:
    """``[channels, height, width]`` in another size."""
    if tuple(image.shape[-2:]) == size:
        return image
    resized: Tensor = resize(image, list(size), InterpolationMode.BILINEAR, antialias=True)
    return resized


def nearest(labels: Tensor, size: tuple[int, int]) -> Tensor:
    """``[height, width]`` in another size, without new values."""
    if tuple(labels.shape[-2:]) == size:
        return labels
    resized: Tensor = resize(labels[None], list(size), InterpolationMode.NEAREST)
    return resized[0]


def unit(vectors: Array) -> Array:
    """``[3, height, width]`` scaled to length 1; zero vectors stay."""
    lengths = np.linalg.norm(vectors, axis=0, keepdims=True)
    return np.where(lengths > 0, vectors / np.maximum(lengths, 1e-12), 0.0)
