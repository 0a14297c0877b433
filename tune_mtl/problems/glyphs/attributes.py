"""The 40 attributes of `glyphs`: of the font's style, and of what Unicode says of a character. Imports no torch.

Only names, decompositions and combining classes are asked for: by Unicode's stability policy these never change, so
every version of Python gives the same labels.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tune_mtl.problems.glyphs.fonts import Face

_OVERLAY, _ATTACHED = 1, 202
"""Canonical combining classes: a mark across its letter; the first of those that are attached, below or above."""

Of = TypeVar("Of")


@dataclass(frozen=True)
class Character:
    """What Unicode says of a code point.

    Attributes:
        name: Its name, in capital letters.
        variant: Which form of another character it is: ``super``, ``sub``, ``circle``, ``font``, ...; or nothing.
        parts: It taken apart: letters, digits and combining marks.
        classes: The combining classes of these; 0 is none.
    """

    name: str
    variant: str
    parts: str
    classes: tuple[int, ...]

    @classmethod
    def of(cls, code: int) -> "Character":
        """Look up a code point; one without a name has the name ''."""
        text = chr(code)
        parts = unicodedata.normalize("NFKD", text)
        variant = re.match(r"<(\w+)>", unicodedata.decomposition(text))
        classes = tuple(map(unicodedata.combining, parts))
        return cls(unicodedata.name(text, ""), variant[1] if variant else "", parts, classes)

    @property
    def accents(self) -> int:
        """How many marks stand above, below or beside it."""
        return sum(number >= _ATTACHED for number in self.classes)


@dataclass(frozen=True)
class Attribute(Generic[Of]):
    """A yes or no that a person can see in the picture.

    Attributes:
        name: Of the task.
        shown: What is seen where the answer is yes.
        holds: The answer for a face, or for a character.
    """

    name: str
    shown: str
    holds: Callable[[Of], bool]


def _named(name: str, shown: str, *phrases: str, but: str = "") -> Attribute[Character]:
    """The character's name has one of the phrases as whole words, and not ``but``."""
    wanted = re.compile(rf"\b(?:{'|'.join(phrases)})\b")
    return Attribute(name, shown, lambda found: bool(wanted.search(found.name)) and not (but and but in found.name))


def _accented(name: str, shown: str, *marks: int) -> Attribute[Character]:
    wanted = {chr(mark) for mark in marks}
    return Attribute(name, shown, lambda found: not wanted.isdisjoint(found.parts))


_NO_SYMBOL = re.compile(
    r"\b(?:LETTER|LIGATURE|SYLLABICS|CAPITAL|SMALL|NUMERAL|COMBINING|LATIN(?! CROSS)|GREEK|CYRILLIC|ARMENIAN"
    r"|GEORGIAN|ARABIC|HEBREW|LAO|NKO|TIFINAGH|LISU|OGHAM)\b"
)


def _is_symbol(found: Character) -> bool:
    return not (_NO_SYMBOL.search(found.name) or _has_digit(found))


def _has_digit(found: Character) -> bool:
    return "DIGIT" in found.name or any("0" <= part <= "9" for part in found.parts)


def _is_struck(found: Character) -> bool:
    return "STROKE" in found.name.split() or _OVERLAY in found.classes


STYLES: tuple[Attribute[Face], ...] = (
    Attribute("bold", "thick lines", lambda face: face.bold),
    Attribute("oblique", "slanted to the right", lambda face: face.oblique),
    Attribute("serif", "small strokes at the ends of lines", lambda face: face.serif),
    Attribute("mono", "drawn to be as wide as every other character", lambda face: face.mono),
)
"""What the face decides."""

PROPERTIES: tuple[Attribute[Character], ...] = (
    _named("capital", "a capital letter", "CAPITAL LETTER"),
    _named("small", "a small letter", "SMALL LETTER"),
    Attribute("symbol", "no letter, no digit and no mark that belongs to a letter", _is_symbol),
    Attribute("digit", "a digit 0 to 9 or of another script, also raised, circled or in a fraction", _has_digit),
    _named("latin", "the Latin script", "LATIN", but="CROSS"),
    _named("greek", "the Greek script", "GREEK"),
    _named("cyrillic", "the Cyrillic script", "CYRILLIC"),
    _named("armenian", "the Armenian script", "ARMENIAN"),
    _named("georgian", "the Georgian script", "GEORGIAN"),
    _named("arabic", "the Arabic script", "ARABIC"),
    _named("hebrew", "the Hebrew script", "HEBREW"),
    _named("lao", "the script of Laos", "LAO"),
    _named("syllabics", "Canadian Aboriginal syllabics", "SYLLABICS"),
    _named("braille", "dots of Braille", "BRAILLE"),
    _named("box", "lines to draw boxes with, or blocks", "BOX DRAWINGS", "BLOCK", "SHADE", "^QUADRANT"),
    _named("arrow", "an arrow or a harpoon", "ARROWS?", "ARROWHEAD", "HARPOONS?"),
    _named(
        "relation", "a sign between two terms: equal, less, contained, similar, ...",
        "EQUALS?", "LESS-THAN", "GREATER-THAN", "SUBSET", "SUPERSET", "PRECEDES", "SUCCEEDS", "SIMILAR", "ELEMENT",
        "TILDE OPERATOR", "CONTAINS", "IDENTICAL",
    ),
    _named("circled", "a circle, or something within one", "CIRCLED?"),
    _named("filled", "filled with black, drawn with heavy lines, or in black letter", "BLACK", "HEAVY"),
    Attribute("superscript", "small and raised", lambda found: found.variant == "super"),
    Attribute("subscript", "small and lowered", lambda found: found.variant == "sub"),
    _named("small_capital", "the form of a capital letter at the size of a small one", "SMALL CAPITAL"),
    _named("turned", "turned over, or mirrored", "TURNED", "REVERSED", "INVERTED"),
    Attribute("stroke", "struck through", _is_struck),
    _named("hook", "a hook, a tail or a descender at the end of a line", "HOOK", "TAIL", "DESCENDER", but="HOOK ABOVE"),
    Attribute("accent", "an accent or another mark above, below or beside", lambda found: found.accents >= 1),
    Attribute("two_accents", "two such marks or more", lambda found: found.accents >= 2),
    _accented("acute", "acute accent", 0x301),
    _accented("grave", "grave accent", 0x300),
    _accented("circumflex", "circumflex", 0x302),
    _accented("tilde", "tilde above, or the Greek circumflex of that form", 0x303, 0x342),
    _accented("macron", "a line above", 0x304),
    _accented("diaeresis", "two dots above", 0x308),
    _accented("dot_above", "a dot above", 0x307),
    _accented("dot_below", "a dot below", 0x323),
    _accented("breathing", "smooth or rough breathing of Greek, like a comma above", 0x313, 0x314),
)  # fmt: skip
"""What the character decides."""

ATTRIBUTES: tuple[Attribute[Any], ...] = (*STYLES, *PROPERTIES)
"""All tasks of `glyphs`, in their order."""
