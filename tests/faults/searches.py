"""A search as its files show it while it runs, and how it is brought to its end whatever happened."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.processes import until
from tests.faults.server import Server
from tests.faults.world import Driver, World

MODULE = "slow:problem"
_SECONDS = 180


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a search is asked for."""

    name: str
    samples: int = 6
    epochs: int = 6
    seed: int = 0
    pace: float = 0.3
    concurrency: int | None = None
    replicates: int = 1
    confirm: int = 0
    strategies: tuple[str, ...] = ("sus", "io")
    scheduler: str = "asha"

    @property
    def fresh_seeds(self) -> set[int]:
        """Those on which what was chosen is judged."""
        if self.replicates == 1:
            return set(range(self.seed + 1, self.seed + 1 + self.confirm))
        return {self.seed + index + 1000 * (n + 1) for index in range(self.replicates) for n in range(self.confirm)}

    def words(self) -> list[str]:
        return [
            *("search", MODULE, "--name", self.name, "--samples", str(self.samples), "--seed", str(self.seed)),
            *("--max-epochs", str(self.epochs), "--lr", "1e-3:1e-1", "--strategies", ",".join(self.strategies)),
            *("--set", f"problem_pace={self.pace}", "--no-report"),
            *("--replicates", str(self.replicates), "--confirm", str(self.confirm), "--scheduler", self.scheduler),
            *(("--concurrency", str(self.concurrency)) if self.concurrency else ()),
        ]


@dataclass(frozen=True)
class Reported:
    """A result that reached the driver.

    Attributes:
        at: Seconds since 1970.
    """

    trial: str
    epoch: int
    at: float
    values: dict[str, float]


@dataclass
class Search:
    """A search in a world, with the driver that runs it at the moment.

    Attributes:
        server: Its tracking server.
        storage: The folder that it is given.
        clustered: Whether on the world's cluster, else on a Ray that its driver starts.
    """

    world: World
    asked: Asked
    server: Server
    storage: Path
    clustered: bool = False
    _driver: Driver | None = None
    _known: int = 0

    @property
    def folder(self) -> Path:
        return self.storage / self.asked.name

    @property
    def driver(self) -> Driver:
        assert self._driver is not None, "not started"
        return self._driver

    def start(self) -> "Search":
        """Start it."""
        return self._command(*self.asked.words())

    def resume(self) -> "Search":
        """``tune-mtl resume``, on the cluster that the world has now."""
        return self._command("resume", self.asked.name)

    def go_on(self) -> int:
        """Resume to the end; a search that nobody has heard of yet is started again. Returns the exit code."""
        code = self.resume().driver.wait()
        said = self.driver.said()
        if code == 2 and re.search(r"there is no search|before its first trial", said):
            if "before its first trial" in said:
                assert self.world.command("rm", self.asked.name, *self._where()[-2:]).wait() == 0
            self.start()
            code = self.driver.wait()
        return code

    def bring_to_end(self, attempts: int = 4) -> int:
        """Wait for the driver, and resume until one ends well; returns how many resumes it took."""
        code = self.driver.wait()
        for attempt in range(attempts):
            if code == 0:
                return attempt
            code = self.go_on()
        assert code == 0, f"exit code {code} after {attempts} resumes: {self.driver.log}\n{self.driver.said()}"
        return attempts

    def wait_for(self, condition: Callable[[], object], seconds: float = _SECONDS, *, pause: float = 0.05) -> None:
        """Wait for something to happen in the search, while its driver lives."""
        happened = until(lambda: condition() or not self.driver.running, seconds, pause=pause)
        assert happened, f"nothing happened for {seconds} s: {self.driver.log}\n{self.driver.said()}"
        assert condition(), f"the driver ended before it happened: {self.driver.log}\n{self.driver.said()}"

    @property
    def trials(self) -> set[str]:
        """Those that there have to be: as many as asked for, or where trials pause, as many as were begun."""
        begun = {each["arguments"]["trial"] for each in self._records("trial") if each["call"] == "open"}
        count = len(begun) if self.asked.scheduler == "thaw" else self.asked.samples
        return {f"{ordinal:04d}" for ordinal in range(count)}

    def reported(self, kind: str = "trial") -> list[Reported]:
        """Everything that was ever reported, as kept for MLflow."""
        told = [record["arguments"] for record in self._records(kind) if record["call"] == "log"]
        return [Reported(each["trial"], each["epoch"], each["at"] / 1000, each["values"]) for each in told]

    def thaws(self) -> int:
        """How often it was decided that a trial goes on, which had paused or was about to."""
        return sum(
            record["call"] == "decide" and "trial" in record["arguments"]["step"] for record in self._records("trial")
        )

    def results(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Ray's own result files: trial and result, those of confirmation included."""
        for path in sorted(self.folder.glob("**/trial_*/result.json")):
            for line in _whole_lines(path):
                yield path.parent.name.removeprefix("trial_"), json.loads(line)

    def whereabouts(self) -> dict[str, str]:
        """The address of the node on which each trial that goes on was last heard of, as its head's session tells."""
        told = list(self._records("trial"))
        over = {each["arguments"]["trial"] for each in told if each["call"] == "end" or each["arguments"].get("last")}
        session = self.world.nodes[0].log.parent
        found = {}
        for path in session.glob(f"session_*/artifacts/*/{self.asked.name}/driver_artifacts/trial_*/result.json"):
            trial, lines = path.parent.name.removeprefix("trial_"), _whole_lines(path)
            if lines and trial not in over:
                found[trial] = str(json.loads(lines[-1])["node_ip"])
        return found

    def news(self) -> list[Reported]:
        """What was reported since the present driver was started."""
        return self.reported()[self._known :]

    def _command(self, *words: str) -> "Search":
        self._known = len(self.reported())
        self._driver = self.world.command(*words, *self._where(), clustered=self.clustered)
        return self

    def _where(self) -> list[str]:
        cluster = ["--address", self.world.address] if self.clustered else []
        return ["--storage", str(self.storage), *cluster, "--tracking-uri", self.server.uri]

    def _records(self, kind: str) -> Iterator[dict[str, Any]]:
        path = self.folder / "tracking" / kind / "tracking.jsonl"
        return (json.loads(line) for line in (_whole_lines(path) if path.exists() else ()))


def _whole_lines(path: Path) -> list[bytes]:
    """Without one that is being written."""
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
