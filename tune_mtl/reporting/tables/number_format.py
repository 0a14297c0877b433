"""How numbers are written for people."""

import math
from collections.abc import Sequence

from tune_mtl.reporting.statistics.comparison import Comparison
from tune_mtl.reporting.statistics.significance import Difference, Sample

_ALIKE = 100.0
"""Results whose sizes differ by less than this are written with the same decimals below each other."""


def number(value: float) -> str:
    """Return four significant digits, whole numbers in full; a dash for what is undefined."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def sample_text(sample: Sample, decimals: int | None = None) -> str:
    """Return ``0.1235 ± 0.0032``: four significant digits of the larger, or so many ``decimals``."""
    known = [value for value in (sample.mean, sample.deviation) if not math.isnan(value)]
    size = _size(sample)
    if decimals is None and size and not _plain(size):
        return " ± ".join(f"{value:.3g}" for value in known)
    places = _decimals(size) if decimals is None else decimals
    return " ± ".join(f"{value:.{places}f}" for value in known)


def sample_texts(samples: Sequence[Sample]) -> list[str]:
    """Return a column of samples: with the same decimals, where their sizes allow it."""
    sizes = [size for size in map(_size, samples) if size]
    alike = bool(sizes) and all(map(_plain, sizes)) and max(sizes) < _ALIKE * min(sizes)
    decimals = _decimals(max(sizes)) if alike else None
    return [sample_text(sample, decimals) for sample in samples]


def rounded(value: float, uncertainty: float) -> str:
    """Round to the digits that mean something: two significant ones of the ``uncertainty``, but never a wrong zero."""
    if not _plain(abs(uncertainty)) or not (value == 0 or _plain(abs(value)) or abs(value) < abs(uncertainty)):
        return number(value)
    text = f"{value:.{max(0, 1 - math.floor(math.log10(abs(uncertainty))))}f}"
    return f"{value:.1g}" if value and not float(text) else text


def difference_text(gap: Difference | Comparison, value: float) -> str:
    """Return ``value``, some end of ``gap``'s interval or its middle, as precisely as the interval is narrow."""
    return rounded(value, (gap.high - gap.low) / 2)


def p_text(p_value: float) -> str:
    """Return ``p = 0.012``; what is too small to be told from zero is written as such."""
    return f"p = {p_value:.2g}" if p_value >= 1e-6 else "p < 1e-06" if p_value >= 0 else "no test"


def _size(sample: Sample) -> float:
    return max((abs(value) for value in (sample.mean, sample.deviation) if math.isfinite(value)), default=0.0)


def _plain(size: float) -> bool:
    """Return whether a number of this size is written without an exponent."""
    return 1e-4 <= size < 1e9


def _decimals(size: float) -> int:
    """Return the decimals with which ``size`` has four significant digits."""
    return max(0, 3 - math.floor(math.log10(size))) if size else 0
