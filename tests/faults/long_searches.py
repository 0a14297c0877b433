"""Two searches that take long: one killed again and again, one that loses its tracking server for a minute."""

import itertools
import time
from dataclasses import replace
from random import Random

from tests.faults.checks import complaints, story
from tests.faults.searches import Asked, Search
from tests.faults.server import Server
from tests.faults.summary import Verdict
from tests.faults.world import World


def killed_again_and_again(world: World, server: Server, chance: Random, kills: float) -> Verdict:
    """One trial at a time, killed ``kills`` times at random moments: equals the same search never killed."""
    asked = Asked(name="killed", samples=12, seed=chance.randrange(10**6), pace=0.8, concurrency=1)
    search, moments = Search(world, asked, server, world.storage), []
    search.start()
    while len(moments) < kills:
        moments.append(_kill(search, chance))
        search.resume()
    search.bring_to_end()
    peace = _in_peace(search)
    wrong = [*complaints(search), *_differences(search, peace)]
    figures = f"{len(moments)} kills ({', '.join(moments)}); {asked.samples} trials equal to those of a search in peace"
    return Verdict("killed again and again, one trial at a time", figures, complaints=wrong)


def _kill(search: Search, chance: Random) -> str:
    """At a moment that may be before the first result of this life, or after some."""
    if chance.random() < 0.3:
        seconds = chance.uniform(1.0, 12.0)
        time.sleep(seconds)
        moment = f"{seconds:.0f} s after the start"
    else:
        results, after = chance.randint(1, 3), chance.uniform(0.0, 0.8)
        search.wait_for(lambda: len(search.news()) >= results)
        time.sleep(after)
        moment = f"{after:.1f} s after result {results}"
    assert search.driver.running, "the search ended before all kills were done"
    search.driver.kill()
    return moment


def without_server(world: World, server: Server, chance: Random, seconds: float) -> Verdict:
    """The tracking server is down for ``seconds`` in mid-search: training does not pause, and the data are the same."""
    pace = max(0.5, seconds / 20)
    asked = Asked(name="cut-off", samples=12, seed=chance.randrange(10**6), pace=pace, concurrency=1)
    search = Search(world, asked, server, world.storage).start()
    search.wait_for(lambda: len(search.news()) >= chance.randint(3, 6))
    server.kill()
    down = time.time()
    time.sleep(seconds)
    assert search.driver.running, f"the search took less than the outage: {search.driver.said()}"
    server.start()
    up = time.time()
    resumes = search.bring_to_end()
    times = [each.at for each in search.reported()]
    usual = max(later - earlier for earlier, later in itertools.pairwise(times) if later < down or earlier > up)
    meanwhile = [at for at in times if down <= at <= up]
    longest = max(later - earlier for earlier, later in itertools.pairwise([down, *meanwhile, up]))
    wrong = [*complaints(search), *_differences(search, _in_peace(search))]
    if longest > 2 * usual:
        wrong.append(f"training paused for {longest:.1f} s while the server was down, {usual:.1f} s otherwise")
    figures = (
        f"down for {up - down:.0f} s, {len(meanwhile)} results meanwhile; longest pause {longest:.2f} s, otherwise"
        f" {usual:.2f} s; {resumes} resumes"
    )
    return Verdict(f"the tracking server down for {seconds:.0f} s", figures, complaints=wrong)


def _in_peace(search: Search) -> Search:
    """The same search, left alone and at full speed."""
    asked = replace(search.asked, name=f"{search.asked.name}-in-peace", pace=0.0)
    peace = Search(search.world, asked, search.server, search.storage).start()
    peace.bring_to_end(attempts=0)
    return peace


def _differences(search: Search, peace: Search) -> list[str]:
    found, wanted = story(search), story(peace)
    different = [f"best is {found['best']}, in peace {wanted['best']}"] if found["best"] != wanted["best"] else []
    for trial in sorted({*found["trials"], *wanted["trials"]}):
        ours, theirs = found["trials"].get(trial), wanted["trials"].get(trial)
        if ours != theirs:
            different.append(f"trial {trial} is {ours}, in peace {theirs}")
    return different
