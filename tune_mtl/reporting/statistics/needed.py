"""How many tunings, or seeds, would tell? The fewest with which the test of an estimated effect has its power."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats

from tune_mtl.reporting.statistics.comparison import POWER
from tune_mtl.reporting.statistics.significance import ALPHA, Sample

MOST_UNITS = 1000
"""Beyond so many the effect, if there is one, is too small for anybody to tell."""


@dataclass(frozen=True)
class Effect:
    """A difference as it was estimated, and how its t-test grows with the number of units.

    The power is that of the t-test if the estimate were the truth: of a noncentral t distribution whose centre is the
    mean over its standard error at so many units.

    Attributes:
        mean: The estimate; positive is what a claim says.
        deviation: The standard deviation that a single unit adds.
        sides: 1 or 2: whether the test looks for differences of one sign or of both.
        level: The level of the test.
        freedom: Degrees of freedom for each unit after the first: 1 where differences are paired.
    """

    mean: float
    deviation: float
    sides: int = 2
    level: float = ALPHA
    freedom: float = 1.0

    @classmethod
    def paired(cls, differences: Sequence[float], *, sides: int = 2, level: float = ALPHA) -> "Effect | None":
        """Return the effect of differences, unit by unit; None of fewer than two."""
        if len(differences) < 2:
            return None
        return cls(statistics.fmean(differences), statistics.stdev(differences), sides, level)

    @classmethod
    def between(cls, less: Sample, more: Sample) -> "Effect | None":
        """Return the effect of two independent samples, for Welch's test with as many units of each; None of one."""
        variances = [less.deviation**2, more.deviation**2]
        if min(less.count, more.count) < 2:
            return None
        squares = math.fsum(variance**2 for variance in variances)
        freedom = math.fsum(variances) ** 2 / squares if squares else 2.0
        return cls(more.mean - less.mean, math.sqrt(math.fsum(variances)), freedom=freedom)

    def power(self, units: int, *, level: float | None = None) -> float:
        """Return the chance that so many units show the effect, whichever way it points."""
        if not self.deviation:
            return 1.0 if self.mean else 0.0
        freedom = self.freedom * (units - 1)
        critical = float(stats.t.isf((self.level if level is None else level) / self.sides, freedom))
        centre = abs(self.mean) / self.deviation * math.sqrt(units)
        return float(stats.nct.sf(critical, freedom, centre)) if centre < critical + 30 else 1.0

    def units(self, *, power: float = POWER, level: float | None = None) -> int:
        """Return the fewest units that show it with a chance of ``power``; ``MOST_UNITS`` + 1 if so many do not."""
        return _fewest(lambda count: self.power(count, level=level) >= power)


def units_to_tell(effects: Sequence[Effect | None]) -> int | None:
    """Return how many units would decide a claim that holds if all its effects are positive, and not if one is not.

    Where all estimates are positive, so many that all tests together succeed with a chance of 80 %: each may fail with
    its share of the other 20 %. Else so many that the clearest of the negative ones is shown, at a level that is
    divided by the number of effects, which is Bonferroni's correction. None where some effect is unknown.
    """
    known = [effect for effect in effects if effect is not None]
    if not known or len(known) < len(effects):
        return None
    against = [effect for effect in known if effect.mean < 0]
    if against:
        return min(effect.units(level=effect.level / len(known)) for effect in against)
    return max(effect.units(power=1 - (1 - POWER) / len(known)) for effect in known)


def _fewest(enough: Callable[[int], bool]) -> int:
    low, high = 1, 2  # one unit is no test
    while not enough(high):
        if high > MOST_UNITS:
            return MOST_UNITS + 1
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return min(high, MOST_UNITS + 1)
