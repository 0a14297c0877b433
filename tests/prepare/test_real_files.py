"""Files as cameras, tools and people leave them: each is read as what it is, or refused by name."""

import io
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import loadmat, savemat

from tests.prepare import makers
from tests.prepare.test_bad_files import SIZE, frame, run
from tests.prepare.test_prepare import prepared
from tune_mtl import UserError
from tune_mtl.prepare.datasets import open_source, prepare_source
from tune_mtl.prepare.images import decode_labels, decode_rgb
from tune_mtl.prepare.prepared_set import PreparedSet
from tune_mtl.prepare.source import BadSample

MAT, FACE = "nyu_depth_v2_labeled.mat", "img_align_celeba/000001.jpg"


def edited(name: str, before: str, after: str):
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert before in text
        (folder / name).write_text(text.replace(before, after, 1))

    return edit


def changed(variable: str, change):
    def edit(folder: Path) -> None:
        with h5py.File(folder / MAT, "r+") as file:
            values = change(file[variable][:])
            del file[variable]
            file[variable] = values

    return edit


def splits(train, test):
    return lambda folder: savemat(folder / "splits.mat", {"trainNdxs": train, "testNdxs": test})


def normal_pngs(mode: str):
    def write(folder: Path) -> None:
        (folder / "normals").mkdir()
        for number in range(1, 9):
            Image.new(mode, (64, 48)).save(folder / "normals" / f"{number:04d}.png")

    return write


def npy(part: str, change):
    def edit(folder: Path) -> None:
        path = folder / "train" / part / "2.npy"
        np.save(path, change(np.load(path)))

    return edit


def labels_saved(mode: str, **options):
    return lambda folder: Image.new(mode, (128, 64)).save(frame(folder, "gtFine"), **options)


def broken_link(folder: Path) -> None:
    frame(folder, "gtFine").unlink()
    frame_of = frame(folder, "leftImg8bit").name.replace("leftImg8bit", "gtFine_labelIds")
    (folder / "gtFine" / "train" / "aachen" / frame_of).symlink_to("nowhere.png")


def spoil_header(folder: Path) -> None:
    path = folder / "train" / "label" / "2.npy"
    path.write_bytes(path.read_bytes()[:10] + b"{((" + path.read_bytes()[13:])


def renamed_stems(stem: str):
    def rename(folder: Path) -> None:
        for part in ("image", "label", "depth", "normal"):
            shutil.copy(folder / "train" / part / "2.npy", folder / "train" / part / f"{stem}.npy")

    return rename


BAD = {
    "JPEG labels": ("cityscapes", labels_saved("L", format="JPEG"), "labelIds.png is a JPEG, which blurs"),
    "RGBA labels": ("cityscapes", labels_saved("RGBA"), "labelIds.png is an image of mode RGBA"),
    "labels behind a broken link": ("cityscapes", broken_link, "labelIds.png cannot be read: No such file"),
    "two numbers for absent": ("celeba", edited("list_attr_celeba.txt", " -1", "  0"), "absent is -1 or 0, not both"),
    "an attribute twice": (
        "celeba",
        edited("list_attr_celeba.txt", "Attribute_1 ", "Attribute_0 "),
        "names attribute 'Attribute_0' twice",
    ),
    "digits of another script": (
        "celeba",
        edited("list_attr_celeba.txt", "12\n", "²\n"),
        "must begin with the number of images",
    ),
    "a damaged header": ("nyuv2", spoil_header, "label/2.npy cannot be read"),
    "complex labels": ("nyuv2", npy("label", lambda a: a.astype(complex)), "holds complex128[32, 48]"),
    "normals as bytes": ("nyuv2", npy("normal", lambda a: ((a + 1) * 127).astype(np.uint8)), "are these encoded as"),
    "normals as fractions": ("nyuv2", npy("normal", lambda a: (a + 1) / 2), "are these encoded as (n + 1) / 2?"),
    "a number twice": ("nyuv2", renamed_stems("02"), "image has two files of number 2"),
    "a name in another script": ("nyuv2", renamed_stems("²"), "must hold numbered files"),
    "16-bit scenes": ("official", changed("images", lambda a: a.astype(np.uint16) * 257), "has values from 0 to 6"),
    "fewer labels": ("official", changed("labels", lambda a: a[:2]), "labels of [2, 64, 48]"),
    "axes in another order": (
        "official",
        changed("images", lambda a: a.transpose(0, 3, 2, 1)),
        "[n, 3, width, height]",
    ),
    "fractional ids": ("official", changed("labels", lambda a: a + 0.5), "has labels that are no whole numbers"),
    "ids below 0": ("official", changed("labels", lambda a: a.astype(int) - 900), "mapping goes from 0 to 894"),
    "fractional splits": ("official", splits([[1.5], [2]], [[3]]), "'trainNdxs' must number images from 1 to 8"),
    "no numbers in splits": ("official", splits([[np.nan], [2]], [[3]]), "'trainNdxs' must number images from 1 to 8"),
    "empty splits.mat": ("official", lambda f: (f / "splits.mat").write_bytes(b""), "splits.mat cannot be read"),
    "a fractional mapping": (
        "official",
        lambda f: savemat(f / "class13Mapping.mat", {"m": np.arange(40) / 4}),
        "class13Mapping.mat holds no class mapping",
    ),
    "grey normals": ("official", normal_pngs("L"), "is an image of mode L, but vectors need"),
}


def written(kind: str, folder: Path) -> Path:
    makers_of = {
        "celeba": makers.write_celeba,
        "cityscapes": makers.write_cityscapes,
        "nyuv2": makers.write_nyuv2_npy,
        "official": makers.write_nyuv2_official,
    }
    return makers_of[kind](folder)


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_what_it_seems_is_one_line(tmp_path, monkeypatch, capsys, case):
    kind, spoil, message = BAD[case]
    dataset = "nyuv2" if kind == "official" else kind
    source = written(kind, tmp_path / "the source")
    spoil(source)
    words = ["--source", str(source), "--out", str(tmp_path / "out"), "--size", SIZE[dataset]]
    assert message in run(monkeypatch, capsys, "prepare", dataset, *words)
    assert not (tmp_path / "out" / dataset).exists()


def test_splits_of_either_version_of_matlab_are_the_same(tmp_path):
    source = written("official", tmp_path / "source")
    expected = open_source("nyuv2", source, "16x32", None).splits
    variables = loadmat(source / "splits.mat")
    (source / "splits.mat").unlink()
    with h5py.File(source / "splits.mat", "w", userblock_size=512) as file:
        for name in ("trainNdxs", "testNdxs"):
            file[name] = variables[name].T.astype(float)
    with (source / "splits.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    assert open_source("nyuv2", source, "16x32", None).splits == expected


def test_faces_in_other_colours_turned_or_with_endings_in_capitals(tmp_path):
    source = written("celeba", tmp_path / "source")
    upper = source / "img_align_celeba"
    Image.new("CMYK", (178, 218), (0, 255, 255, 0)).save(source / FACE, quality=95)
    Image.new("L", (178, 218), 77).save(upper / "000002.jpg", quality=95)
    halves = np.zeros((218, 178, 3), np.uint8)
    halves[:, 89:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side: shown turned right by a quarter
    Image.fromarray(halves.transpose(1, 0, 2)[::-1].copy()).save(upper / "000003.jpg", exif=exif, quality=95)
    (upper / "000004.jpg").rename(upper / "000004.JPG")
    for name in ("list_attr_celeba.txt", "list_eval_partition.txt"):
        (source / name).write_bytes((source / name).read_bytes().replace(b"\n", b"\r\n") + b"\r\n  \r\n")
    lines = (source / "list_eval_partition.txt").read_text().splitlines()
    (source / "list_eval_partition.txt").write_text("\n".join(reversed(lines)))
    found = prepared("celeba", source, tmp_path / "out", size="16x16").arrays("train")
    assert np.abs(found["images"][0].astype(int) - np.array([255, 0, 0])[:, None, None]).max() <= 3
    assert np.abs(found["images"][1].astype(int) - 77).max() <= 3
    assert found["images"][2][:, :, :6].max() < 20
    assert found["images"][2][:, :, 10:].min() > 235
    for row in range(6):
        values = np.array(makers.celeba_values(row)) > 0
        assert np.array_equal(np.unpackbits(found["attributes"][row])[:40], values)


def test_palettes_and_grey_scales_hold_the_same_ids(tmp_path):
    ids = np.tile(np.arange(34, dtype=np.uint8), (8, 1))
    grey, palette = Image.fromarray(ids), Image.fromarray(ids, "P")
    palette.putpalette([value for index in range(256) for value in (index, 255 - index, 7)])
    for name, image in (("grey", grey), ("palette", palette), ("grey palette", grey.convert("P"))):
        image.save(tmp_path / "ids.png")
        assert np.array_equal(decode_labels((tmp_path / "ids.png").read_bytes(), name), ids), name
    colours = Image.fromarray(np.dstack([ids, ids + 1, ids + 2]))
    for mode in ("RGB", "RGBA"):
        colours.convert(mode).save(tmp_path / "image.png")
        assert np.array_equal(
            decode_rgb((tmp_path / "image.png").read_bytes(), mode), np.asarray(colours).transpose(2, 0, 1)
        )


def test_frames_in_capitals_are_found_and_those_without_a_partner_are_said(tmp_path):
    source = written("cityscapes", tmp_path / "source")
    frame(source, "leftImg8bit").unlink()
    for path in list(source.glob("*/*/*/*.png")):
        path.rename(path.with_suffix(".PNG"))
    found = open_source("cityscapes", source, None, None)
    assert {split: len(frames) for split, frames in found.splits.items()} == {"train": 4, "val": 3}
    without, alone = found.warnings
    assert "1 frames have no labels and are left out, the first leftImg8bit/train/aachen/aachen_000005" in without
    assert "1 label maps have no image and are left out, the first gtFine/train/aachen/aachen_000000" in alone


def test_numbers_may_begin_with_zeros(tmp_path):
    source = written("nyuv2", tmp_path / "source")
    plain = prepared("nyuv2", source, tmp_path / "plain", size="16x32").manifest.splits
    for path in list(source.glob("*/*/*.npy")):
        path.rename(path.with_name(f"{int(path.stem):04d}.npy"))
    assert prepared("nyuv2", source, tmp_path / "zeros", size="16x32").manifest.splits == plain


def shorten(folder: Path) -> None:
    path = folder / "train_images.npy"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    "damage",
    [
        shorten,
        lambda folder: (folder / "train_images.npy").unlink(),
        lambda folder: shutil.rmtree(folder / "done"),
        lambda folder: next((folder / "done").iterdir()).write_text("{"),
        lambda folder: (folder / "plan.json").write_text("{"),
    ],
)
def test_what_an_interrupted_run_left_damaged_is_made_anew(tmp_path, monkeypatch, damage):
    monkeypatch.setattr("tune_mtl.prepare.writer._CHUNK", 2)
    source = open_source("celeba", written("celeba", tmp_path / "source"), "16x16", None)
    whole = prepare_source(source, tmp_path / "whole")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tune_mtl.prepare.writer._Writer.finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare_source(source, tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr("tune_mtl.prepare.writer._CHUNK", 2)
    damage(tmp_path / "out" / "celeba.partial")
    assert prepare_source(source, tmp_path / "out").splits == whole.splits
    assert PreparedSet(tmp_path / "out" / "celeba").problems() == []


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faces")
    prepared("celeba", written("celeba", folder / "source"), folder / "out", size="16x16")
    return folder / "out"


def manifest(change):
    def edit(folder: Path) -> None:
        content = json.loads((folder / "manifest.json").read_text())
        change(content)
        (folder / "manifest.json").write_text(json.dumps(content))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (manifest(lambda m: m.update(splits={})), "manifest.json is damaged (it has no split 'train')"),
        (manifest(lambda m: m["splits"].pop("test")), "is damaged (it has no split 'test')"),
        (manifest(lambda m: m["splits"]["val"].pop("attributes")), "split 'val' has no array 'attributes'"),
        (manifest(lambda m: m.update(notes={})), "is damaged (it has no note 'attributes')"),
        (lambda folder: (folder / "val_images.npy").write_bytes(b""), "val_images.npy cannot be read"),
        (lambda folder: (folder / "test_images.npy").write_bytes(b"\x93NUMPY\1\0\x05\0{((((\n"), "cannot be read"),
        (shorten, "train_images.npy cannot be read"),
    ],
)
def test_a_damaged_set_is_one_line(faces, tmp_path, monkeypatch, capsys, damage, message):
    shutil.copytree(faces, tmp_path / "out")
    damage(tmp_path / "out" / "celeba")
    words = ["train", "celeba", "--data", str(tmp_path / "out"), "--strategy", "sus", "--lr", "1e-3"]
    line = run(monkeypatch, capsys, *words, "--out", str(tmp_path / "run"))
    assert message in line
    assert "prepare the set again" in line


def test_arrays_of_one_split_have_one_length(faces, tmp_path):
    shutil.copytree(faces, tmp_path / "out")
    folder = tmp_path / "out" / "celeba"
    np.save(folder / "val_attributes.npy", np.zeros((2, 5), np.uint8))
    manifest(lambda m: m["splits"]["val"]["attributes"].update(shape=[2, 5]))(folder)
    with pytest.raises(UserError, match="the arrays of split 'val' differ in length"):
        PreparedSet(folder).arrays("val")


def test_images_turned_by_their_exif_data_are_left_where_labels_are():
    image = Image.new("RGB", (4, 2))
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    image.save(buffer, "PNG", exif=exif)
    assert decode_rgb(buffer.getvalue(), "here").shape == (3, 2, 4)
    with pytest.raises(BadSample, match="is empty"):
        decode_rgb(b"", "here")
