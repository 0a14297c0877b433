"""How often a verdict errs, how often it decides, and what that costs: searches replayed on recorded curves.

    python benchmarks/verdicts.py [--table benchmarks/curves/multidigits.jsonl] [--searches 1000] [--workers 2]

prints the tables of docs/statistics.md. Every share has a standard error of sqrt(share (1 - share) / searches).
"""

import argparse
import math
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.replay import AUTO, LEARNING_RATES, Design, Replayed, replay
from search_spaces import LogRange
from tune_mtl.reporting.statistics.significance import ALPHA, Sample, welch

TABLE = Path(__file__).with_name("curves") / "multidigits.jsonl"
SUS = Contestant("sus")


@dataclass(frozen=True)
class Match:
    """Who is compared, over which learning rates."""

    contestants: Mapping[str, Contestant]
    lr: LogRange = field(default=LEARNING_RATES)


def valley(table: Table, strategy: str) -> float:
    """Return the recorded learning rate at which ``strategy`` (without groups) is best on average."""
    arm = table.arms[strategy, 0]
    return math.exp(float(arm.rates[arm.means.min(axis=1).argmin()]))


def mirrored(table: Table, factor: float) -> Match:
    """Return two equally good strategies whose best learning rates are a ``factor`` apart.

    The second is the mirror image of the first on the scale of learning rates, about the middle of the searched range:
    of draws that are uniform there, both find equally good ones equally often.
    """
    middle = valley(table, "sus") / math.sqrt(factor)
    decades = math.sqrt(LEARNING_RATES.high / LEARNING_RATES.low)
    return Match({"sus": SUS, "jd_sum": replace(SUS, mirror=middle)}, LogRange(middle / decades, middle * decades))


def null_matches(table: Table) -> dict[str, Match]:
    """Return matches in which nobody is better than anybody: every verdict of a difference is an error."""
    return {
        "one under two names": Match({"sus": SUS, "jd_sum": SUS}),
        "best rates 3x apart": mirrored(table, 3),
        "best rates 10x apart": mirrored(table, 10),
        "seeds' luck 3x larger": Match({"sus": SUS, "jd_sum": replace(SUS, noise=3.0)}),
        "one under four names": Match(dict.fromkeys(("sus", "jd_sum", "pcgrad", "jd_upgrad"), SUS)),
    }


def _searched(path: Path, match: Match, design: Design, judge: Callable[[Replayed], object], seed: int) -> object:
    found = replay(World(_table(path), match.contestants, seed=seed), design, lr=match.lr)
    return judge(found), found.epochs


_TABLES: dict[Path, Table] = {}


def _table(path: Path) -> Table:
    if path not in _TABLES:
        _TABLES[path] = Table.read(path)
    return _TABLES[path]


def any_told_apart(found: Replayed) -> bool:
    """Whether the verdict tells two strategies apart."""
    return bool(found.told_apart)


def any_significant(found: Replayed) -> bool:
    """Whether some test is significant, whatever the wording may claim."""
    return any(one.significant for one in found.results.comparisons())


def any_uncorrected(found: Replayed) -> bool:
    """Whether some test would be significant if it were the only one, made once."""
    values = {name: found.results.units(name, "loss") for name in found.results.runs}
    return any(
        one.significant
        for first, second in combinations(values, 2)
        for one in found.results.compared({first: values[first], second: values[second]}, 1)
    )


def any_unpaired(found: Replayed) -> bool:
    """Whether Welch's test between the tunings of two strategies is significant."""
    samples = [Sample.of(found.results.values(name, "loss")) for name in found.results.runs]
    return any(welch(first, second) < ALPHA for first, second in combinations(samples, 2))


def pairs_told_apart(found: Replayed) -> frozenset[frozenset[str]]:
    """Return the pairs that are told apart."""
    return frozenset(frozenset(pair) for pair in found.told_apart)


@dataclass(frozen=True)
class Shares:
    """Replays many searches of a table, on several processes."""

    path: Path
    searches: int
    pool: ProcessPoolExecutor

    def of(self, match: Match, design: Design, judge: Callable[[Replayed], bool] = any_told_apart) -> float:
        """Return the share of searches that ``judge`` says yes to."""
        return statistics.fmean(bool(said) for said, _ in self._all(match, design, judge))

    def decided(self, match: Match, design: Design) -> tuple[dict[frozenset[str], float], float]:
        """Return the share of searches that tell each pair apart, and the epochs of a search on average."""
        found = self._all(match, design, pairs_told_apart)
        pairs = [frozenset(pair) for pair in combinations(match.contestants, 2)]
        shares = {pair: statistics.fmean(pair in said for said, _ in found) for pair in pairs}
        return shares, statistics.fmean(epochs for _, epochs in found)

    def _all(self, match: Match, design: Design, judge: Callable[[Replayed], object]) -> list:
        one = partial(_searched, self.path, match, design, judge)
        return list(self.pool.map(one, range(self.searches), chunksize=10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scheduler", choices=("asha", "thaw"), default="asha")
    arguments = parser.parse_args()
    table = Table.read(arguments.table)
    with ProcessPoolExecutor(arguments.workers) as pool:
        shares = Shares(arguments.table, arguments.searches, pool)
        print(f"Replayed on {arguments.table.name}, {arguments.searches} searches per cell.\n")
        if arguments.scheduler == "thaw":
            print_errors(table, shares, THAWED)
            print_power(shares, THAWED)
            return
        print_errors(table, shares, designs())
        print_power(shares, designs())
        print_parts(table, shares)


def designs() -> dict[str, Design]:
    """Return the designs of the tables, by name."""
    sizes = [(4, 3), (4, 5), (4, 8), (8, 3)]
    named = {f"{replicates} x {trials}": Design(trials=trials, replicates=replicates) for trials, replicates in sizes}
    return {**named, f"auto, {AUTO.looks[0]} to {AUTO.looks[-1]} x {AUTO.trials}": AUTO}


THAWED = {
    f"{replicates} x 8, paused": Design(trials=8, replicates=replicates, scheduler="thaw") for replicates in (3, 4, 5)
}
"""The designs of the tables where trials pause."""


def print_errors(table: Table, shares: Shares, chosen: Mapping[str, Design]) -> None:
    """Print how often equally good strategies are told apart."""
    matches = null_matches(table)
    print("| tunings x trials | " + " | ".join(matches) + " |\n|---|" + "---:|" * len(matches))
    for name, design in chosen.items():
        cells = [f"{shares.of(match, design):.1%}" for match in matches.values()]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print()


def print_power(shares: Shares, chosen: Mapping[str, Design]) -> None:
    """Print how often the recorded strategies are told apart, and at which cost."""
    three = Match({name: Contestant(name) for name in ("sus", "ius", "io")})
    two = Match({name: Contestant(name) for name in ("sus", "io")})
    print("| tunings x trials | sus / io alone | sus / io of three | ius / io | sus / ius | epochs of the three |")
    print("|---|" + "---:|" * 5)
    for name, design in chosen.items():
        alone = shares.of(two, design)
        found, epochs = shares.decided(three, design)
        pairs = [found[frozenset(pair)] for pair in (("sus", "io"), ("ius", "io"), ("sus", "ius"))]
        cells = [f"{share:.0%}" for share in (alone, *pairs)]
        print(f"| {name} | " + " | ".join(cells) + f" | {epochs:.0f} |", flush=True)
    print()


def print_parts(table: Table, shares: Shares) -> None:
    """Print what becomes of error and power if a part of the design is taken out."""
    nulls, default = null_matches(table), Design()
    equal, apart, four = nulls["one under two names"], nulls["best rates 3x apart"], nulls["one under four names"]
    real = Match({name: Contestant(name) for name in ("sus", "io")})
    once = Design(replicates=1, trials=8, fresh=3)
    own = replace(default, common_draws=False)
    rows = {
        "all of it": (default, any_told_apart),
        "no common draws": (own, any_told_apart),
        "no pairing (Welch over tunings)": (default, any_unpaired),
        "neither": (own, any_unpaired),
        "no replication: one tuning of 8 trials, Welch over 3 seeds": (once, any_significant),
        "nor common draws": (replace(once, common_draws=False), any_significant),
    }
    print(
        "| what is taken out | one under two names | best rates 3x apart | sus / io told apart |\n|---|---:|---:|---:|"
    )
    for name, (design, judge) in rows.items():
        cells = [f"{shares.of(match, design, judge):.1%}" for match in (equal, apart, real)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print("\n| what is taken out | error with | error without |\n|---|---:|---:|")
    families = shares.of(four, default), shares.of(four, default, any_uncorrected)
    print(f"| correction for six comparisons of four equal strategies | {families[0]:.1%} | {families[1]:.1%} |")
    print(f"| correction for the looks of auto | {shares.of(equal, AUTO):.1%} | {shares.of(equal, AUTO_NAIVE):.1%} |")


AUTO_NAIVE = replace(AUTO, naive_looks=True)
"""Judged at every look as if it were the only one."""


if __name__ == "__main__":
    main()
