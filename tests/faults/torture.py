"""The long form: faults of all kinds at random moments, a search killed again and again, a server down for a minute.

``python -m tests.faults.torture --faults 30 --seed 0 --out FILE``
"""

import argparse
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.checks import complaints
from tests.faults.kinds import KINDS, Kind, Missed
from tests.faults.long_searches import Verdict, killed_again_and_again, without_server
from tests.faults.searches import Asked, Search
from tests.faults.server import Server
from tests.faults.summary import Fault, markdown
from tests.faults.world import World

SCHEDULERS = ("asha", "thaw")
_TRIES = 3
_ORPHANS_SECONDS = 90


def main(words: list[str]) -> int:
    """Run what is asked for; 0 if everything held."""
    given = _arguments(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then too, nothing is left
    chosen = given.only.split(",") if given.only else list(KINDS)
    tormentor = Tormentor(given.seed, World(given.folder), given.scheduler)
    with tormentor.world:
        faults = [tormentor.fault(number, kind) for number, kind in enumerate(_order(chosen, given.faults, given.seed))]
        long: list[Verdict] = []
        if given.kills:
            long.append(tormentor.long(killed_again_and_again, given.kills))
        if given.outage:
            long.append(tormentor.long(without_server, given.outage))
        left = tormentor.world.orphans_after(_ORPHANS_SECONDS)
    held = not left and all(each.held for each in (*faults, *long))
    say(f"processes left: {left or 'none'}; {'all held' if held else f'see {tormentor.world.folder}'}")
    if held and given.folder is None:
        shutil.rmtree(tormentor.world.folder, ignore_errors=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(markdown(faults, long, given.seed))
    return int(not held)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30, help="how many, each in a search of its own")
    parser.add_argument("--seed", type=int, default=0, help="of kinds and moments")
    parser.add_argument("--only", help=f"these kinds, of {', '.join(KINDS)}")
    parser.add_argument(
        "--scheduler", choices=SCHEDULERS, help="of all searches that can have it; default: as chance has it"
    )
    parser.add_argument("--kills", type=int, default=10, help="of the one search that is killed again and again")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds without the tracking server")
    parser.add_argument("--out", type=Path, help="a Markdown file for the figures")
    parser.add_argument("--folder", type=Path, help="a new folder to work in; default: one that goes if all held")
    return parser.parse_args(words)


def _order(kinds: list[str], count: int, seed: int) -> list[str]:
    """All kinds in turn, each turn shuffled."""
    chance, order = Random(seed), []
    while len(order) < count:
        order += chance.sample(kinds, len(kinds))
    return order[:count]


@dataclass
class Tormentor:
    """Faults, one after the other, in one world."""

    seed: int
    world: World
    scheduler: str | None = None
    _server: Server | None = None

    @property
    def server(self) -> Server:
        """Started when first needed; again if a fault left it dead."""
        if self._server is None:
            self._server = self.world.server()
        if not self._server.answers():
            self._server.kill()
            self._server.start()
        return self._server

    def fault(self, number: int, name: str) -> Fault:
        """One search with one fault, brought to its end and checked."""
        started, chance = time.monotonic(), Random(f"{self.seed}/{number}/{name}")
        place = chance.choice(KINDS[name].places)
        made = Fault(number, name, place)
        for attempt in range(_TRIES):
            search = self._search(f"f{number:02d}-{attempt}", KINDS[name], place, chance)
            try:
                made.moment = KINDS[name].strike(search.start(), chance)
                made.resumes = search.bring_to_end()
                made.complaints = [*complaints(search), *self.world.orphans_after(_ORPHANS_SECONDS)]
                break
            except Missed:
                made.complaints = [f"the search ended before the fault struck, {_TRIES} times"]
            except Exception:
                made.complaints = traceback.format_exc().strip().splitlines()
                search.driver.kill()
                break
        made.seconds = time.monotonic() - started
        say(made.line())
        for complaint in made.complaints:
            say(f"     {complaint}")
        if made.complaints:
            again = f"--seed {self.seed} --faults {number + 1}"
            say(f"     again with the same order and moments: {again}; its files: {search.folder}, {search.driver.log}")
        return made

    def _search(self, name: str, kind: Kind, place: str, chance: Random) -> Search:
        if place == "cluster":
            self._whole_cluster()
        drawn = chance.choice(SCHEDULERS)
        scheduler = kind.scheduler or self.scheduler or drawn
        asked = Asked(
            name=name,
            seed=chance.randrange(10**6),
            pace=0.8 if place == "cluster" else 0.3,
            concurrency=chance.choice([None, None, 1]),
            confirm=kind.confirm,
            samples=(4 if kind.confirm else 6)
            * (2 if scheduler == "thaw" else 1),  # they train a third of their length
            scheduler=scheduler,
        )
        storage = self.world.small_disk(name) if kind.small_disk else self.world.storage
        return Search(self.world, asked, self.server, storage, clustered=place == "cluster")

    def _whole_cluster(self, nodes: int = 3) -> None:
        """Three nodes, whatever earlier faults have left of them."""
        if not self.world.nodes:
            self.world.start_cluster(nodes=nodes)
        while len(self.world.nodes) < nodes:
            self.world.add_node()

    def long(self, run, amount: float) -> Verdict:
        """One of the long searches; what it raises is a complaint."""
        started = time.monotonic()
        try:
            verdict = run(self.world, self.server, Random(f"{self.seed}/{run.__name__}"), amount)
        except Exception:
            verdict = Verdict(run.__name__, complaints=traceback.format_exc().strip().splitlines())
        verdict.seconds = time.monotonic() - started
        say(verdict.line())
        for complaint in verdict.complaints:
            say(f"     {complaint}")
        return verdict


def say(text: str) -> None:
    """At once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
