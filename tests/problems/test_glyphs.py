import hashlib
import logging
import subprocess
import sys
import unicodedata
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from search_spaces import find_space
from tune_mtl import UserError, load_problem, make_strategy, train
from tune_mtl.problems.glyphs import fonts, problem, splits
from tune_mtl.problems.glyphs.attributes import ATTRIBUTES, PROPERTIES, STYLES, Character
from tune_mtl.problems.glyphs.fonts import FACES
from tune_mtl.problems.glyphs.images import SIZE, Drawn, draw_all
from tune_mtl.problems.glyphs.splits import PICTURES_EACH, SPLITS, rows_of_splits, split_of
from tune_mtl.strategies.registry import registry

NAMES = [attribute.name for attribute in ATTRIBUTES]


def properties_of(character):
    found = Character.of(ord(character))
    return {attribute.name for attribute in PROPERTIES if attribute.holds(found)}


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("Ä", {"capital", "latin", "accent", "diaeresis"}),
        ("ǘ", {"small", "latin", "accent", "two_accents", "diaeresis", "acute"}),
        ("a", {"small", "latin"}),
        ("Ω", {"capital", "greek"}),
        ("ἄ", {"small", "greek", "accent", "two_accents", "breathing", "acute"}),
        ("Ж", {"capital", "cyrillic"}),
        ("Й", {"capital", "cyrillic", "accent"}),
        ("Ք", {"capital", "armenian"}),
        ("ჟ", {"georgian"}),
        ("ب", {"arabic"}),
        ("ש", {"hebrew"}),
        ("ກ", {"lao"}),
        ("ᐁ", {"syllabics"}),
        ("→", {"symbol", "arrow"}),
        ("╬", {"symbol", "box"}),
        ("▚", {"symbol", "box"}),
        ("⠿", {"symbol", "braille"}),
        ("①", {"digit", "circled"}),
        ("●", {"symbol", "circled", "filled"}),
        ("½", {"digit"}),
        ("7", {"digit"}),
        ("²", {"digit", "superscript"}),
        ("₂", {"digit", "subscript"}),
        ("ʰ", {"superscript"}),
        ("≤", {"symbol", "relation"}),
        ("≠", {"symbol", "relation", "stroke"}),
        ("ø", {"small", "latin", "stroke"}),
        ("ʀ", {"latin", "small_capital"}),
        ("ɐ", {"small", "latin", "turned"}),
        ("ɲ", {"small", "latin", "hook"}),
        ("ả", {"small", "latin", "accent"}),
        ("ḅ", {"small", "latin", "accent", "dot_below"}),
        ("ȱ", {"small", "latin", "accent", "two_accents", "dot_above", "macron"}),
        ("ẫ", {"small", "latin", "accent", "two_accents", "circumflex", "tilde"}),
        ("✝", {"symbol"}),
    ],
)
def test_what_a_character_has(character, expected):
    assert properties_of(character) == expected


def test_accents_are_what_is_left_of_a_letter_without_its_base():
    """For letters that are their base and marks: the oracle puts them together again."""
    marks = {"acute": "\u0301", "grave": "\u0300", "circumflex": "\u0302", "macron": "\u0304", "diaeresis": "\u0308"}
    for name, mark in marks.items():
        for base in "aeiou":
            composed = unicodedata.normalize("NFC", base + mark)
            assert len(composed) == 1
            assert properties_of(composed) == {"small", "latin", "accent", name}


def test_there_are_forty_attributes_and_twelve_faces():
    assert len(ATTRIBUTES) == len(set(NAMES)) == 40
    assert len(FACES) == len(set(FACES)) == 12
    styles = [{style.name for style in STYLES if style.holds(face)} for face in FACES]
    assert styles == [
        set(), {"bold"}, {"oblique"}, {"bold", "oblique"},
        {"serif"}, {"serif", "bold"}, {"serif", "oblique"}, {"serif", "bold", "oblique"},
        {"mono"}, {"mono", "bold"}, {"mono", "oblique"}, {"mono", "bold", "oblique"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "face"), [(0x41, "DejaVuSans"), (0x431, "DejaVuSerif-BoldItalic"), (0x67, "DejaVuSansMono-Oblique")]
)
def test_a_picture_is_what_pillow_draws(code, face):
    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
    font = ImageFont.truetype(str(file), 12, layout_engine=ImageFont.Layout.BASIC)
    canvas = Image.new("L", (64, 64))
    ImageDraw.Draw(canvas).text((20, 30), chr(code), fill=255, font=font, anchor="ls")
    drawn = draw_all()
    (row,) = np.flatnonzero((drawn.codes == code) & (drawn.faces == [one.name for one in FACES].index(face)))
    ours, ink = drawn.images[row], np.asarray(canvas)
    left, top, right, bottom = canvas.getbbox()
    above = 12 - (30 - top)  # the baseline is row 12
    assert np.array_equal(ours[above : above + bottom - top].max(axis=0) > 0, ours.max(axis=0) > 0)
    columns = np.flatnonzero(ours.max(axis=0))
    assert np.array_equal(ours[above : above + bottom - top, columns[0] : columns[-1] + 1], ink[top:bottom, left:right])
    margins = (columns[0] - (left - 20), SIZE - columns[0] + (left - 20) - font.getlength(chr(code)))
    assert abs(margins[0] - margins[1]) <= 1


def test_no_picture_occurs_twice_and_none_is_empty():
    drawn = draw_all()
    assert len({image.tobytes() for image in drawn.images}) == len(drawn.images) > 30_000
    assert drawn.images.any(axis=(1, 2)).all()
    assert sorted(zip(drawn.codes, drawn.faces, strict=True)) == list(zip(drawn.codes, drawn.faces, strict=True))
    # a Cyrillic letter that looks like a Latin one is the Latin one; an arrow of an oblique face is upright
    assert not np.isin([0x410, 0x415], drawn.codes[drawn.faces == 0]).any()
    assert not ((drawn.codes == ord("→")) & np.isin(drawn.faces, (2, 3))).any()


def test_no_character_is_in_two_splits_nor_more_often_than_twice():
    drawn, rows = draw_all(), rows_of_splits()
    codes = {split: drawn.codes[found] for split, found in rows.items()}
    for split, found in codes.items():
        others = np.concatenate([codes[other] for other in SPLITS if other != split])
        assert not np.isin(found, others).any()
        assert np.unique(found, return_counts=True)[1].max() == PICTURES_EACH
        assert {split_of(int(code)) for code in found} == {split}
    shares = np.array([len(set(found.tolist())) for found in codes.values()]) / len(set(drawn.codes.tolist()))
    assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.02)


def test_the_split_of_a_character_is_that_of_its_number_on_every_machine():
    text = hashlib.sha256(b"2024/split/65").digest()[:8]
    place = (int.from_bytes(text, "big") >> 1) / 2**63
    assert split_of(65) == ("train" if place < 0.6 else "val" if place < 0.8 else "test")
    assert [split_of(code) for code in range(65, 75)] == [
        "test", "train", "val", "train", "train", "test", "train", "test", "train", "val",
    ]  # fmt: skip


@pytest.mark.parametrize("split", SPLITS)
def test_every_attribute_can_be_learnt_in_every_split(split):
    data = load_problem("glyphs").data(split)
    images, targets = data.everything.inputs, data.everything.targets
    assert images.shape[1:] == (1, 16, 16)
    assert images.dtype == torch.float32
    assert 0 == images.min() < images.max() == 1
    assert list(targets) == NAMES
    for name, target in targets.items():
        assert set(target.unique().tolist()) == {0.0, 1.0}, name
        assert 0.005 < target.mean() < 0.6, name
    assert 1500 < len(data) < 8000


def test_rows_keep_picture_and_answers_together():
    drawn, rows = draw_all(), rows_of_splits()["val"]
    data = load_problem("glyphs").data("val")
    for index in range(0, len(rows), 211):
        assert torch.equal(
            data.batch(torch.tensor([index])).inputs[0, 0], torch.tensor(drawn.images[rows[index]] / 255).float()
        )
        character, face = Character.of(int(drawn.codes[rows[index]])), FACES[drawn.faces[rows[index]]]
        expected = [style.holds(face) for style in STYLES] + [one.holds(character) for one in PROPERTIES]
        assert [bool(data.everything.targets[name][index]) for name in NAMES] == expected


def test_drawing_again_gives_the_same():
    again = draw_all.__wrapped__()
    assert again.checksum() == draw_all().checksum()


def test_these_are_the_pictures_that_documented_figures_are_about():
    """With the fonts, Pillow and FreeType of `constraints.txt`; with others the problem warns."""
    assert fonts.digest_of_fonts() == problem.FONTS
    assert draw_all().checksum() == problem.CHECKSUM


@pytest.fixture
def warned(caplog):
    problem.warn_of_other_images.cache_clear()
    with caplog.at_level(logging.WARNING):
        yield lambda: [record.getMessage() for record in caplog.records]
    problem.warn_of_other_images.cache_clear()


def test_nobody_is_warned_of_the_same_pictures(warned):
    load_problem("glyphs").data("train")
    assert warned() == []


def test_other_pictures_are_warned_of_once_with_the_reason(warned, monkeypatch):
    monkeypatch.setattr(problem, "CHECKSUM", "another")
    for split in ("val", "train", "train", "test"):
        load_problem("glyphs").data(split)
    (line,) = warned()
    assert line.startswith("warning: the images of glyphs are not those of the documented figures: Pillow")
    monkeypatch.setattr(problem, "FONTS", "another")
    problem.warn_of_other_images.cache_clear()
    load_problem("glyphs").data("train")
    folder = fonts.font_files()[0].parent
    assert warned()[-1].endswith(
        f"the fonts of matplotlib {matplotlib.__version__} in {folder} are others than those that come with 3.11.2."
    )


def test_missing_fonts_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "find_spec", lambda _: type("Spec", (), {"submodule_search_locations": [str(tmp_path)]}))
    with pytest.raises(UserError, match=r"has no DejaVuSans.ttf: pip install --force-reinstall matplotlib"):
        load_problem("glyphs")
    monkeypatch.setattr(fonts, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"but matplotlib is not installed"):
        load_problem("glyphs")


def test_a_damaged_font_is_named(tmp_path):
    damaged = tmp_path / "DejaVuSans.ttf"
    damaged.write_bytes(fonts.font_files()[0].read_bytes()[:5000])
    with pytest.raises(
        UserError, match=rf"cannot read the font {damaged} \(.*: pip install --force-reinstall matplotlib"
    ):
        fonts.code_points(damaged)


def test_fonts_with_too_few_characters_are_not_blamed_on_the_user(monkeypatch):
    whole = draw_all()
    few = np.flatnonzero(whole.codes < 0x500)
    drawn = Drawn(whole.images[few], whole.codes[few], whole.faces[few], whole.labels[few])
    monkeypatch.setattr(splits, "draw_all", lambda: drawn)
    characters = len(set(drawn.codes.tolist()))
    with pytest.raises(UserError) as refused:
        rows_of_splits.__wrapped__()
    assert str(refused.value).startswith(f"the {characters} characters of the fonts leave the train split with ")
    assert str(refused.value).endswith("matplotlib's own fonts: pip install --force-reinstall matplotlib.")
    with pytest.raises(
        UserError, match=rf"problem_characters=50 leaves .* Give more characters, at most {characters}\."
    ):
        rows_of_splits.__wrapped__(50)


@pytest.mark.parametrize(
    ("characters", "said"),
    [
        (0, "problem_characters=0 must be a whole number, 1 or more."),
        (10**6, "problem_characters=1000000 is more than the fonts have, which is "),
        (2.5, "problem_characters=2.5 must be a whole number, 1 or more."),
        (20, "problem_characters=20 leaves the train split with"),
    ],
)
def test_characters_that_do_not_do_are_one_line(characters, said):
    with pytest.raises(UserError) as refused:
        train("glyphs", {"strategy": "sus", "lr": 1e-3, "problem_characters": characters})
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_fewer_characters_are_a_part_of_more():
    fewer, more = rows_of_splits(3000), rows_of_splits()
    for split in SPLITS:
        assert set(fewer[split]) < set(more[split])
    assert len(load_problem("glyphs", {"problem_characters": 3000}).data("train")) == len(fewer["train"])


def test_finding_fonts_does_not_load_matplotlib():
    code = "import sys; from tune_mtl.problems.glyphs.fonts import font_files; font_files(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert {"matplotlib", "torch", "PIL"}.isdisjoint(done.stdout.split())


def test_a_process_that_is_handed_the_images_draws_none(monkeypatch):
    """Trials of a search get them from the memory of their node."""
    for module in (problem, splits):
        monkeypatch.setattr(module, "draw_all", lambda: pytest.fail("it draws"))
    made = load_problem("glyphs")
    assert [task.name for task in made.tasks] == NAMES
    assert set(made.model().heads) == set(NAMES)


def test_every_strategy_of_the_papers_space_takes_a_step():
    glyphs = load_problem("glyphs")
    inputs, targets, _ = glyphs.data("train").batch(torch.arange(0, 6000, 200))
    for name in find_space(glyphs, "paper").strategies:
        groups = {"groups": 40} if registry[name].has_groups else {}
        ends = {"mr_updates_end": 10} if name == "mr" else {}
        model = glyphs.model(channels=4)
        before = [weight.detach().clone() for weight in model.trunk.parameters()]
        losses = make_strategy(name, model, glyphs.tasks, lr=1e-3, **groups, **ends).step(inputs, targets)
        assert list(losses) == NAMES
        assert all(torch.isfinite(loss) for loss in losses.values())
        assert not all(map(torch.equal, before, model.trunk.parameters()))


def test_an_epoch_is_one_on_all_attributes_with_error_and_f1():
    result = train("glyphs", {"strategy": "io", "groups": 4, "lr": 2e-3, "epochs": 1, "problem_characters": 3000})
    assert result.outcome == "completed"
    record = result.history[-1]
    for metric in ("error", "f1"):
        own = [record[f"val/{name}/{metric}"] for name in NAMES]
        assert record[f"val/{metric}"] == pytest.approx(np.mean(own))
    assert 0 < record["val/relative_loss"] < 5
