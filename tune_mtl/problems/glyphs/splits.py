"""Which pictures of `glyphs` are trained on, selected on and tested on: decided for each character by its number."""

from functools import cache

import numpy as np

from tune_mtl.core.errors import UserError
from tune_mtl.core.seeds import derive
from tune_mtl.problems.glyphs.attributes import ATTRIBUTES
from tune_mtl.problems.glyphs.images import Drawn, draw_all

SPLITS = ("train", "val", "test")
PICTURES_EACH = 2
"""Pictures of a character, in faces that are drawn by lot; symbols, which look the same in most, have fewer."""

_TRAIN, _TRAIN_AND_VAL = 0.6, 0.8
"""Shares of the characters; the rest is test."""

_SEED = 2024
_DRAWS = 2**63


def split_of(code: int) -> str:
    """Return the split of a code point, whatever fonts there are and however many characters are used."""
    place = derive(_SEED, "split", code) / _DRAWS
    return "train" if place < _TRAIN else "val" if place < _TRAIN_AND_VAL else "test"


@cache
def rows_of_splits(characters: int | None = None) -> dict[str, list[int]]:
    """Return the rows of :func:`draw_all` that each split has, in the order of code points.

    Args:
        characters: Use so many characters; default: all of them. Fewer are a part of more.

    Raises:
        UserError: if an attribute had no example, or no counter-example, in a split.
    """
    drawn = draw_all()
    codes = sorted(set(drawn.codes.tolist()), key=lambda code: derive(_SEED, "character", code))
    if characters is not None and characters > len(codes):
        raise UserError(f"problem_characters={characters} is more than the fonts have, which is {len(codes)}.")
    used = set(codes[:characters])
    found: dict[str, list[int]] = {split: [] for split in SPLITS}
    for code, rows in _by_character(drawn).items():
        if code in used:
            lots = sorted(rows, key=lambda row: derive(_SEED, "face", code, int(drawn.faces[row])))
            found[split_of(code)] += sorted(lots[:PICTURES_EACH])
    for split, rows in found.items():
        _require_both_answers(drawn, rows, split, characters)
    return found


def _by_character(drawn: Drawn) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, code in enumerate(drawn.codes.tolist()):
        found.setdefault(code, []).append(row)
    return found


def _require_both_answers(drawn: Drawn, rows: list[int], split: str, characters: int | None) -> None:
    examples = np.count_nonzero(drawn.labels[rows], axis=0)
    for attribute, count in zip(ATTRIBUTES, examples, strict=True):
        if count not in (0, len(rows)):
            continue
        different = len(set(drawn.codes.tolist()))
        who = (
            f"problem_characters={characters} leaves"
            if characters
            else f"the {different} characters of the fonts leave"
        )
        way_out = (
            f"Give more characters, at most {different}"
            if characters and characters < different
            else "These are not matplotlib's own fonts: pip install --force-reinstall matplotlib"
        )
        raise UserError(
            f"{who} the {split} split with {len(rows)} images, of which"
            f" {'none is' if count == 0 else 'all are'} '{attribute.name}': every attribute needs both in every split."
            f" {way_out}."
        )
