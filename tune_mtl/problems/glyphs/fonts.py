"""The twelve DejaVu faces that come with matplotlib, found without importing it."""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tune_mtl.core.errors import UserError


@dataclass(frozen=True)
class Face:
    """A font file: ``DejaVuSerif-BoldItalic`` is bold, oblique and serif."""

    name: str

    @property
    def bold(self) -> bool:
        """Whether lines are thick."""
        return "Bold" in self.name

    @property
    def oblique(self) -> bool:
        """Whether letters are slanted; an italic is."""
        return self.name.endswith(("Oblique", "Italic"))

    @property
    def serif(self) -> bool:
        """Whether lines end in serifs."""
        return "Serif" in self.name

    @property
    def mono(self) -> bool:
        """Whether all characters have one width."""
        return "Mono" in self.name


FACES = tuple(
    Face(f"DejaVu{family}{style}")
    for family, slanted in (("Sans", "Oblique"), ("Serif", "Italic"), ("SansMono", "Oblique"))
    for style in ("", "-Bold", f"-{slanted}", f"-Bold{slanted}")
)
"""The plain face of a family comes first."""


def font_files() -> tuple[Path, ...]:
    """Return the files of the faces, in their order.

    Raises:
        UserError: if matplotlib, or one of them, is not there: some Linux distributions leave the fonts out.
    """
    spec = find_spec("matplotlib")
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise UserError("problem 'glyphs' draws with matplotlib's fonts, but matplotlib is not installed.")
    folder = Path(next(iter(places))) / "mpl-data" / "fonts" / "ttf"
    files = tuple(folder / f"{face.name}.ttf" for face in FACES)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UserError(
            f"problem 'glyphs' draws with matplotlib's DejaVu fonts, but {folder} has no {missing[0]}:"
            " pip install --force-reinstall matplotlib."
        )
    return files


def code_points(file: Path) -> list[int]:
    """Return the code points that a font has a picture of, in their order.

    Raises:
        UserError: if the file is damaged or cannot be read.
    """
    from matplotlib.ft2font import FT2Font

    try:
        return sorted(FT2Font(str(file)).get_charmap())
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"problem 'glyphs' cannot read the font {file} ({error}): pip install --force-reinstall matplotlib."
        ) from error


def digest_of_fonts() -> str:
    """Return a checksum of the fonts' files."""
    found = hashlib.sha256()
    for file in font_files():
        found.update(file.read_bytes())
    return found.hexdigest()
