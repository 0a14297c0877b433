"""The verdict for programs: plain values, the same as the page prints."""

import html
import json
import statistics
import sys

import pytest

import tune_mtl
from tests.reporting.stories import Imagined, repeated, replicated, usual
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.reporting.answer import answer
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.verdict import verdict, verdict_of

KEYS = {
    "search", "design", "winner", "values", "comparisons", "share_of_seeds", "trade_offs", "groups", "answer",
    "warnings",
}  # fmt: skip
DESIGN = {
    "replicates", "unit", "alpha", "test", "correction", "looks", "trials_per_tuning", "seeds_per_choice", "confirmed",
    "metric", "mode", "split",
}  # fmt: skip
PAIR = {"a", "b", "difference", "low", "high", "p", "told_apart", "replicates", "detectable"}


def judged(story):
    search = story.search()
    results = Results.of(search)
    found = verdict_of(results)
    assert found.keys() == KEYS
    assert found["design"].keys() == DESIGN
    assert all(one.keys() == PAIR for one in found["comparisons"])
    assert found["answer"] == str(answer(results))
    json.dumps(found, allow_nan=False)
    return found


def test_repeated_tunings_tell_strategies_apart():
    found = judged(replicated(repeated({"io": 0.3, "ius": 0.305, "sus": 0.5})))
    assert found["winner"] == "io"
    assert found["design"]["unit"] == "strategy"
    assert found["design"]["test"] == "paired t"
    assert found["design"]["replicates"] == 5
    assert found["design"]["trials_per_tuning"] == 2
    told = {(one["a"], one["b"]): one["told_apart"] for one in found["comparisons"]}
    assert told == {("io", "ius"): False, ("io", "sus"): True, ("ius", "sus"): True}
    for one in found["comparisons"]:
        pairs = zip(found["values"][one["a"]].values(), found["values"][one["b"]].values(), strict=True)
        assert one["difference"] == pytest.approx(sum(b - a for a, b in pairs) / 5)
        assert one["replicates"] == 5


def test_a_search_in_a_store_is_judged_as_its_page_says(repeated_search):
    written, search = repeated_search
    found = verdict_of(Results.of(search))
    assert found["answer"] == written.answer
    assert found["warnings"] == written.answers["tunings"].missing
    page = html.unescape(written.page.read_text())
    for sentence in (written.answers["tunings"].headline, *written.answers["tunings"].details, *found["warnings"]):
        assert sentence in page
    quality = {row[0].text: row[1].value.mean for row in written.tables["tunings"][0].rows}
    for strategy, label in (("io", "io (2 groups)"), ("ius", "ius (2 groups)"), ("sus", "sus")):
        assert quality[label] == pytest.approx(statistics.fmean(found["values"][strategy].values()))
    nearest = next(one for one in found["comparisons"] if {one["a"], one["b"]} == {"io", "ius"})
    assert f"Next is ius (2 groups), {nearest['difference']:.3f} worse" in found["answer"]
    assert f"p = {nearest['p']:.2g}, corrected" in found["answer"]
    assert not nearest["told_apart"]


def test_one_tuning_of_each_tells_none_apart():
    found = judged(replicated(repeated({"io": 0.3, "sus": 0.5}, 1)))
    assert found["design"]["unit"] == "config"
    assert found["design"]["replicates"] == 1
    assert [one["told_apart"] for one in found["comparisons"]] == [False]
    assert found["comparisons"][0]["p"] is None
    assert found["share_of_seeds"] is None


def test_what_is_not_known_is_none_and_never_nan():
    nothing = judged(Imagined())
    assert nothing["winner"] is None
    assert nothing["comparisons"] == []
    reached = repeated({"io": 0.3, "sus": 0.5}, 3)
    reached["io"][0] = reached["sus"][1] = None
    assert judged(replicated(reached))["comparisons"][0]["p"] is None
    huge = judged(replicated({"io": [1e299, -1e299], "sus": [1e299, 5e298], "uw": [-1e299, 1e299]}))
    assert len(huge["comparisons"]) == 3


def test_the_command_prints_what_the_page_says(home, capsys, monkeypatch):
    name = usual().end()
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "report", name, "--json"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert not (home / "reports").exists()
    assert printed == json.loads(json.dumps(verdict(name)))
    assert not any(one["told_apart"] for one in printed["comparisons"])
    assert "whether the strategies do, one tuning of each cannot tell" in printed["answer"]
    assert printed["answer"] == tune_mtl.report(name).answer
    with pytest.raises(UserError, match="there is no search 'nobody'"):
        verdict("nobody")
