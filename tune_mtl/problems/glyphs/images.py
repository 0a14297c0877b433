"""The pictures of `glyphs`: every character of every face once, drawn within a second and kept by the process."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tune_mtl.problems.glyphs.attributes import PROPERTIES, STYLES, Character
from tune_mtl.problems.glyphs.fonts import FACES, code_points, font_files

SIZE, _POINTS, _BASELINE = 16, 12, 12
"""Pixels of a picture's side, the size of the font, and the row on which letters stand."""

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Drawn:
    """Pictures in the order of their code points, then of their faces.

    Attributes:
        images: ``[n, 16, 16]`` uint8, white on black.
        codes: ``[n]`` int64, the code points.
        faces: ``[n]`` int64, positions in ``FACES``.
        labels: ``[n, 40]`` bool, in the order of ``ATTRIBUTES``.
    """

    images: _Array
    codes: _Array
    faces: _Array
    labels: _Array

    def checksum(self) -> str:
        """Return a checksum of everything."""
        found = hashlib.sha256()
        for array in (self.images, self.codes.astype("<i8"), self.faces.astype("<i8"), self.labels):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


@cache
def draw_all() -> Drawn:
    """Draw every character that has a name in every face.

    Empty pictures are left out, and those that a lower code point or an earlier face shows already: no picture occurs
    twice, so none is in two splits, and an oblique face's upright arrows are not called oblique.
    """
    files = font_files()
    found = [(code, face, image) for face, file in enumerate(files) for code, image in _draw_face(file)]
    found.sort(key=lambda entry: entry[:2])
    first = {image.tobytes(): (code, face, image) for code, face, image in reversed(found)}
    kept = sorted(first.values(), key=lambda entry: entry[:2])
    codes = np.array([code for code, _, _ in kept], dtype=np.int64)
    faces = np.array([face for _, face, _ in kept], dtype=np.int64)
    different, which = np.unique(codes, return_inverse=True)
    styles = np.array([[style.holds(face) for style in STYLES] for face in FACES])
    characters = [Character.of(int(code)) for code in different]
    properties = np.array([[one.holds(character) for one in PROPERTIES] for character in characters])
    return Drawn(np.stack([image for _, _, image in kept]), codes, faces, np.hstack([styles[faces], properties[which]]))


def _draw_face(file: Path) -> list[tuple[int, _Array]]:
    # the basic layout draws each character as the font has it; the other one, where installed, fails on some
    codes = code_points(file)
    font = ImageFont.truetype(str(file), _POINTS, layout_engine=ImageFont.Layout.BASIC)
    drawn = ((code, draw(chr(code), font)) for code in codes if Character.of(code).name)
    return [(code, image) for code, image in drawn if image.any()]


def draw(text: str, font: ImageFont.FreeTypeFont) -> _Array:
    """Return a picture of one character: its width in the middle, its baseline always in one row, cut at the edges.

    What takes no room in a line, such as an accent alone, has its ink in the middle.
    """
    left, _, right, _ = font.getbbox(text, anchor="ls")
    width = font.getlength(text)
    start = (SIZE - width) / 2 if width else (SIZE - left - right) / 2
    image = Image.new("L", (SIZE, SIZE))
    ImageDraw.Draw(image).text((round(start), _BASELINE), text, fill=255, font=font, anchor="ls")
    return np.asarray(image)
