"""Dimensions as people write them, and spaces in files."""

import pytest
from hypothesis import given, settings
from hypothesis.strategies import booleans, builds, composite, floats, integers, lists, none, one_of, sampled_from, text

from search_spaces import Choice, IntRange, LogRange, Range, Space, find_space
from search_spaces.files import content_of, read_space, text_of
from search_spaces.texts import read_dimension, write_dimension
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.strategies.registry import registry


@pytest.mark.parametrize(
    ("written", "dimension"),
    [
        ("32,64,128", Choice((32, 64, 128))),
        ("64", Choice((64,))),
        ("adam, sgd", Choice(("adam", "sgd"))),
        ("true,false", Choice((True, False))),
        ("mine:Lion,adam", Choice(("mine:Lion", "adam"))),
        ("1e-3,.5", Choice((0.001, 0.5))),
        ('"1e-3"', Choice(("1e-3",))),
        ("4:16", IntRange(4, 16)),
        ("4:16:log", IntRange(4, 16, log=True)),
        ("0.1:0.9", Range(0.1, 0.9)),
        ("4.0:16", Range(4.0, 16.0)),
        ("1e-6:1e-2:log", LogRange(1e-6, 1e-2)),
        ([1, 2], Choice((1, 2))),
        ({"low": 1, "high": 9}, IntRange(1, 9)),
        ({"low": 0.1, "high": 1, "log": True, "grid": [0.1, 1]}, LogRange(0.1, 1.0, (0.1, 1.0))),
        (Range(0.0, 1.0), Range(0.0, 1.0)),
    ],
)
def test_what_is_written_is_the_dimension(written, dimension):
    read = read_dimension(written)
    assert (read, type(read)) == (dimension, type(dimension))
    assert [type(value) for value in read.points()] == [type(value) for value in dimension.points()]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "has no values"), (None, "has no values"), ("1,,2", "is empty"), ("1:2:3", "LOW:HIGH"),
        ("1:2:lin", "LOW:HIGH"), ("1:", "LOW:HIGH"), (":2", "LOW:HIGH"), ("5:1", "smaller to a larger"),
        ("1.5:1.5", "smaller to a larger"), ("0:9:log", "above 0"), ("0.0:1:log", "above 0"), ("1:nan", "finite"),
        ("1,1", "there twice"), ("[1],[2]", "is a list"), ([{"a": 1}], "is a list or a mapping"), ("1,NaN", "finite"),
        ({"low": 1}, "must have low and high"), ({"low": 1, "high": "x"}, "numbers"),
        ("1:99999999", "more than 10,000"),
        ({"low": 1, "high": 2, "hi": 3}, "must have low and high"), ({"low": 1, "high": 2, "log": 3}, "true or false"),
    ],
)  # fmt: skip
def test_what_is_no_dimension_is_refused_in_a_line(written, said):
    with pytest.raises(UserError, match=said) as refused:
        read_dimension(written)
    assert "\n" not in str(refused.value)


NUMBERS = floats(min_value=1e-12, max_value=1e12)
PLAIN = one_of(booleans(), integers(-(2**40), 2**40), floats(allow_nan=False, allow_infinity=False), text(min_size=1))


@composite
def dimensions(draw):
    kind = draw(sampled_from((Choice, Range, LogRange, IntRange)))
    if kind is Choice:
        return Choice(tuple(draw(lists(PLAIN, min_size=1, max_size=4, unique_by=lambda v: (type(v), v)))))
    if kind is IntRange:
        low = draw(integers(1, 10**6))
        return IntRange(low, low + draw(integers(1, 999)), draw(booleans()))
    low = draw(NUMBERS)
    ends = (low, low * draw(floats(1.5, 1e6)))
    return kind(*ends, draw(one_of(none(), builds(tuple, lists(NUMBERS, min_size=1, max_size=3)))) or ())


KEYS = sampled_from(["lr", "batch_size", "model_width", "optimizer", "clip_norm"])


@composite
def spaces(draw):
    chosen = draw(lists(sampled_from(["sus", "io", "gradnorm"]), min_size=1, unique=True))
    common = {key: draw(dimensions()) for key in draw(lists(KEYS, max_size=3, unique=True))}
    own = {name: {f"{name}_x": draw(dimensions())} for name in chosen if draw(booleans())}
    seeds = draw(lists(integers(0, 99), min_size=1, max_size=3, unique=True))
    return Space(
        name=draw(text(min_size=1, max_size=20)), strategies=tuple(chosen), dimensions=common, per_strategy=own,
        seeds=tuple(seeds),
    )  # fmt: skip


@settings(max_examples=60)
@given(space=spaces())
def test_a_printed_space_is_read_as_itself(space, tmp_path_factory):
    path = tmp_path_factory.mktemp("spaces") / "space.yaml"
    path.write_text(text_of(space), encoding="utf-8")
    read = read_space(path)
    assert read == space
    assert content_of(read) == content_of(space)
    for strategy in space.strategies:
        assert list(read.of(strategy)) == list(space.of(strategy))
        assert repr(read.of(strategy)) == repr(space.of(strategy)).replace("grid=[]", "grid=()")


def test_every_strategy_of_the_wide_space_is_printed_as_it_is(tmp_path):
    space = find_space(toy_problem(4), "wide").narrowed(strategies=tuple(registry))
    (tmp_path / "wide.yaml").write_text(text_of(space))
    read = read_space(tmp_path / "wide.yaml")
    assert {name: read.of(name) for name in registry} == {name: space.of(name) for name in registry}


HEAD = "strategies: [sus, io]\ndimensions:\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "line 1 is not YAML"),
        ("", "must hold name, strategies"),
        ("- 1", "must hold name, strategies"),
        ("strategy: [sus]", "line 1: strategy is nothing a space has. Did you mean"),
        ("name: x\nstrategies: [sux]", "line 2: strategies: unknown strategy 'sux'. Did you mean 'sus'"),
        ("strategies: sus", "line 1: strategies must be a list"),
        ("strategies: [sus, sus]", "strategies must be one or more different ones"),
        (f"{HEAD}  lr: 1\n  lr: 2", "line 4: dimensions: lr is there twice"),
        (f"{HEAD}  lr: 1\n  model_x: [on, off]", "line 4: dimensions: model_x: write true or false"),
        (f"{HEAD}  lr: 1\n  batch_size: 5:1", "line 4: dimensions: batch_size: range 5:1 must go"),
        (f"{HEAD}  lr: 0:1", "line 3: dimensions: lr: range 0:1 must be above 0"),
        (f"{HEAD}  batch_size:", "line 3: dimensions: batch_size: has no values"),
        (f"{HEAD}  seed: [1]", "seed is no dimension: use seeds"),
        (f"{HEAD}  lr: &a [1]\n  clip_norm: *a", "line 4 is not YAML: references"),
        (f"{HEAD}  lr: !!python/name:os.system x", "the tag"),
        (
            "strategies: [io]\nper_strategy:\n  io:\n    groups: {low: 1}",
            "line 4: per_strategy: io: groups: {'low': 1}",
        ),
        ("strategies: [sus]\nper_strategy:\n  io:\n    groups: [2]", "line 3: per_strategy: io is not among the str"),
        ("strategies: [sus]\nseeds: [1, 1]", "line 2: seeds must be a list of different"),
        ("strategies: [sus]\nseeds: [-1]", "seeds must be a list of different whole numbers"),
        ("strategies: [sus]\ndimensions: 3", "dimensions must be key: value pairs"),
        ("strategies: [sus]\nname: 3", "name must be a text"),
    ],
)
def test_a_mistake_in_a_file_is_a_line_that_says_where(content, said, tmp_path):
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(UserError) as refused:
        read_space(tmp_path / "bad.yaml")
    assert said in str(refused.value)
    assert "bad.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_numbers_and_ranges_are_not_what_older_yaml_takes_them_for(tmp_path):
    (tmp_path / "x.yaml").write_text(f"{HEAD}  lr: 1e-3:1e-1\n  batch_size: 4:16\n  clip_norm: [1e-3, 010]\n")
    dimensions = read_space(tmp_path / "x.yaml").dimensions
    assert dimensions == {
        "lr": LogRange(1e-3, 1e-1), "batch_size": IntRange(4, 16), "clip_norm": Choice((1e-3, 10)),
    }  # fmt: skip


def test_what_is_written_of_a_linear_learning_rate_stays_linear():
    assert write_dimension(Range(0.1, 0.2), log_is_usual=True) == {"low": 0.1, "high": 0.2, "log": False}
