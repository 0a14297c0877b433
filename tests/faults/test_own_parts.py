"""One module of a user's, in a directory of its own, goes all the way: checked, searched, killed, resumed, reported."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.faults import own_parts
from tests.faults.processes import until
from tests.faults.world import Driver, World
from tune_mtl.tracking.journal import read_journal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "own"
SEARCH = [
    *("search", "mine:problem", "--name", NAME, "--strategies", "sus,io,mine:InverseLoss"),
    *("--optimizer", "mine:SignDescent", "--schedule", "mine:warm", "--algorithm", "mine:make_sampler"),
    *("--metric", "val/t0/absolute", "--search", "sign_descent_beta=0.5,0.9", "--search", "model_width=8,16"),
    *("--samples", "4", "--replicates", "1", "--confirm", "2", "--seed", "4"),
]


def done(driver: Driver, code: int = 0) -> str:
    assert driver.wait() == code, driver.said()
    return driver.said()


def test_a_directory_with_one_module_goes_all_the_way_on_two_nodes(tmp_path):
    with World(tmp_path / "world") as world:
        shutil.copy(own_parts.__file__, world.user / "mine.py")
        assert "laws held, none broke" in done(world.command("check", "mine:InverseLoss"))
        world.start_cluster(nodes=1, cpus=1)
        world.add_node(cpus=1, hidden=world.user)  # two trials at once are on both
        where = ["--storage", str(world.storage), "--address", world.address]
        folder = world.storage / NAME
        search = world.command(*SEARCH, "--set", "problem_pace=0.3", *where, clustered=True)
        assert until(lambda: reported(folder) >= 3 or not search.running, 240), search.said()
        search.kill()
        assert 3 <= reported(folder) < 12, search.said()
        said = done(world.command("resume", NAME, *where, clustered=True))
        assert "over 2 fresh seeds" in said

        best = json.loads(done(world.command("best", NAME, "--json")))
        assert best["config"]["optimizer"] == "sign_descent"
        own = done(world.command("best", NAME, "--strategy", "inverse_loss"))
        printed = re.search(r"tune-mtl (train mine:problem .*)", own.replace("\\\n", " "))
        assert printed is not None, own
        again = done(world.command(*shlex.split(printed.group(1)), "--out", "again"))
        assert "completed after 4 epochs" in again
        kept = json.loads(done(world.command("best", NAME, "--strategy", "inverse_loss", "--json")))["metrics"]
        repeated = json.loads((world.user / "again" / "result.json").read_text())["metrics"]
        assert repeated["best/val/t0/absolute"] == kept["val/t0/absolute"], "the same number, bit for bit"
        page = Path(re.findall(r"\S+\.html", done(world.command("report", NAME)))[-1])
        told = (world.user / page).read_text()
        for part in ("inverse_loss", "sign_descent", "warm", "mine:make_sampler"):
            assert part in told


def reported(folder: Path) -> int:
    """How many results the search has recorded so far."""
    return sum(record["call"] == "log" for record in read_journal(folder / "tracking" / "trial"))
