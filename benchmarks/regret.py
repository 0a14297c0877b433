"""What a search costs until its answer is good: regret against epochs, replayed on recorded learning curves.

After every epoch that a search trains, the config that `best` would return is judged by the mean over recorded seeds of
its best value, between recorded learning rates interpolated, and never by the lucky value that chose it. Its regret is
how much worse that is than the best config of the table. Epochs are counted as a share of those of a grid: the 1-2-5
steps of learning rates from 5e-4 to 2e-2, every strategy and group count, every trial to its end.

    python benchmarks/regret.py --searches 40 --first-seed 1000 --picture docs/images/regret.png

prints the tables of docs/benchmarks.md: of our schedulers and of others (`peers.py`), on all recorded problems.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.peers import FAIR, FREE, GRID_RATES, POLICIES, story
from benchmarks.stand_in import Epoch

CURVES = Path(__file__).with_name("curves")
PROBLEMS = ("multidigits", "tabular", "glyphs")
STRATEGIES = ("sus", "ius", "io")
GOALS = (0.05, 0.10)
FORMS = {"equal epochs for every strategy": FAIR, "strategy as one more dimension": FREE}
Judge = Callable[[Sequence[float]], float]
"""From the values of a trial's epochs so far to the one by which it is compared with others; less is better."""


def best(values: Sequence[float]) -> float:
    """Judge a trial by its best epoch."""
    return min(values)


def last(values: Sequence[float]) -> float:
    """Judge a trial by its last epoch."""
    return values[-1]


def smoothed(values: Sequence[float]) -> float:
    """Judge a trial by its best mean (of logarithms) over three epochs in a row, at first over fewer."""
    logs = np.log(values)
    means = [logs[max(0, end - 3) : end].mean() for end in range(1, len(logs) + 1)]
    return math.exp(min(means))


JUDGES: dict[str, Judge] = {"best": best, "last": last, "smoothed": smoothed}


@dataclass(frozen=True)
class Truth:
    """How good each config really is: its mean over the recorded seeds."""

    table: Table
    strategies: tuple[str, ...]
    _known: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    def value(self, config: Mapping[str, object]) -> float:
        """Return the mean over recorded seeds of a config's best value; between rates, by interpolated logarithms."""
        rates, values = self._arm((str(config["strategy"]), int(config.get("groups") or 0)))  # type: ignore[call-overload]
        return math.exp(float(np.interp(math.log(config["lr"]), rates, values)))  # type: ignore[arg-type]

    def _arm(self, arm: tuple[str, int]) -> tuple[np.ndarray, np.ndarray]:
        if arm not in self._known:
            known = self.table.arms[arm]
            self._known[arm] = known.rates, np.log([minima.mean() for minima in known.minima])
        return self._known[arm]

    @cached_property
    def bests(self) -> dict[str, float]:
        """The best value of each strategy in the table."""
        arms = [arm for arm in self.table.arms if arm[0] in self.strategies]
        return {
            name: min(math.exp(float(self._arm(arm)[1].min())) for arm in arms if arm[0] == name)
            for name in self.strategies
        }

    def regret(self, config: Mapping[str, object], among: str | None = None) -> float:
        """Return how much worse a config is than the best of the table, or of one strategy."""
        return self.value(config) / (min(self.bests.values()) if among is None else self.bests[among]) - 1

    @property
    def grid_epochs(self) -> int:
        """The epochs of the grid."""
        arms = sum(name in self.strategies for name, _ in self.table.arms)
        return arms * len(GRID_RATES) * self.table.epochs


def regrets(truth: Truth, story: Iterable[Epoch], judge: Judge = best, among: str | None = None) -> np.ndarray:
    """Return the regret of what `best` would return after each epoch; ``among``: of one strategy's own best.

    Epochs of all strategies count; before a strategy has a trial its regret is infinite.
    """
    values: dict[str, list[float]] = {}
    judged: dict[str, tuple[float, Mapping[str, object]]] = {}
    found = []
    for one in story:
        if among is None or one.config["strategy"] == among:
            values.setdefault(one.trial, []).append(one.value)
            judged[one.trial] = judge(values[one.trial]), one.config
        winner = min(judged.values(), key=lambda pair: pair[0], default=None)
        found.append(math.inf if winner is None else truth.regret(winner[1], among))
    return np.array(found)


def epochs_to(curve: np.ndarray, goal: float, most: int) -> float:
    """Return after how many epochs the regret is at most ``goal``, within ``most`` of them; infinite: never."""
    at = np.flatnonzero(curve[:most] <= goal)
    return float(at[0] + 1) if len(at) else math.inf


def settled(curve: np.ndarray, goal: float, most: int) -> float:
    """Return after how many epochs the regret is at most ``goal`` for good; infinite: not within the search."""
    above = np.flatnonzero(curve[:most] > goal)
    since = int(above[-1]) + 2 if len(above) else 1
    return float(since) if since <= min(len(curve), most) else math.inf


@dataclass(frozen=True)
class Runs:
    """What many searches by one policy came to on one problem. A search that ended keeps what it had."""

    truth: Truth
    stories: Sequence[Sequence[Epoch]]
    judge: Judge = best

    @cached_property
    def all(self) -> list[np.ndarray]:
        """The regrets of each search."""
        return [regrets(self.truth, told, self.judge) for told in self.stories]

    @cached_property
    def own(self) -> dict[str, list[np.ndarray]]:
        """Those of each strategy's own best."""
        return {
            name: [regrets(self.truth, told, self.judge, name) for told in self.stories]
            for name in self.truth.strategies
        }

    @classmethod
    def of(cls, truth: Truth, policy: str, seeds: Iterable[int]) -> "Runs":
        """Replay a search for each of ``seeds``, which are those of the world too."""
        worlds = {seed: World(truth.table, contestants(truth), seed=seed) for seed in seeds}
        return cls(truth, [story(policy, world, seed, truth.grid_epochs) for seed, world in worlds.items()])

    def shares(
        self, of: Callable[[np.ndarray, float, int], float], goal: float, among: str | None = None
    ) -> list[float]:
        """Return the share of the grid's epochs of each search."""
        most = self.truth.grid_epochs
        return [of(curve, goal, most) / most for curve in (self.all if among is None else self.own[among])]

    def bands(self, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Return shares of the grid's epochs, and at each the quartiles of the regret."""
        at = np.linspace(1, self.truth.grid_epochs, points)
        rows = [curve[np.minimum(at.astype(int), len(curve)) - 1] for curve in self.all]
        return at / self.truth.grid_epochs, np.quantile(rows, [0.25, 0.5, 0.75], axis=0, method="nearest")


def contestants(truth: Truth) -> dict[str, Contestant]:
    """Return the strategies of a table, as themselves."""
    return {name: Contestant(name) for name in truth.strategies}


def quartiles(shares: Sequence[float]) -> str:
    """Return the quartiles in percent: ``12 / 15 / -``; a dash where a search never came so far."""
    found = np.quantile(shares, [0.25, 0.5, 0.75], method="nearest")
    return " / ".join("-" if math.isinf(share) else f"{share:.0%}".rstrip("%") for share in found)


def missed(shares: Sequence[float]) -> str:
    """Return how many searches never came so far."""
    return f"{np.mean(np.isinf(shares)):.0%}"


def row(policy: str, runs: Runs) -> str:
    """Return a policy's line of the table."""
    cells = [policy]
    for goal in GOALS:
        shares = runs.shares(epochs_to, goal)
        cells += [quartiles(shares), missed(shares)]
    cells += [quartiles(runs.shares(settled, GOALS[1])), quartiles([curve[-1] for curve in runs.all])]
    cells += [quartiles(runs.shares(epochs_to, GOALS[0], name)) for name in runs.truth.strategies]
    return "| " + " | ".join(cells) + " |"


def header(truth: Truth) -> str:
    """Return the first lines of the table."""
    cells = ["policy", *(part for goal in GOALS for part in (f"to {goal:.0%}", "never")), "to 10% for good"]
    cells += ["regret at its end", *(f"own best of {name}, to 5%" for name in truth.strategies)]
    return "| " + " | ".join(cells) + " |\n|---|" + "---:|" * (len(cells) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--policies", help=f"names, separated by semicolons, of: {'; '.join(POLICIES)}")
    parser.add_argument("--searches", type=int, default=40, help="of each policy, with another searcher seed each")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--picture", type=Path, help="PNG of regret against epochs")
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.searches)
    chosen = given.policies.split(";") if given.policies else list(POLICIES)
    found: dict[str, dict[str, Runs]] = {}
    for problem in given.problems.split(","):
        truth = Truth(Table.read(CURVES / f"{problem}.jsonl"), STRATEGIES)
        found[problem] = {}
        for form, policies in FORMS.items():
            print(f"\n{problem}, {truth.grid_epochs} epochs of the grid, {form}:\n\n{header(truth)}", flush=True)
            for policy in (one for one in policies if one in chosen):
                found[problem][policy] = Runs.of(truth, policy, seeds)
                print(row(policy, found[problem][policy]), flush=True)
        print(f"\n{problem}, by the value by which a trial is judged:\n\n{header(truth)}")
        for policy in (one for one in ("thaw", "asha") if one in chosen):
            for name, judge in JUDGES.items():
                print(row(f"{policy}, {name}", replace(found[problem][policy], judge=judge)), flush=True)
    if given.picture:
        from benchmarks.regret_picture import draw

        draw(
            {p: {name: runs.bands() for name, runs in its.items() if name in FAIR} for p, its in found.items()},
            given.picture,
        )


if __name__ == "__main__":
    main()
