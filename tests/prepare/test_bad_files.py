"""What is wrong with a file is one line that names it, and exit code 2; what is merely odd is read or passed over."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from tests.prepare import makers
from tests.prepare.test_prepare import prepared
from tune_mtl import UserError, check_problem, load_problem, train
from tune_mtl.cli import main
from tune_mtl.experiment.search import plan_search
from tune_mtl.prepare.prepared_set import PreparedSet

SIZE = {"celeba": "16x16", "cityscapes": "16x32", "nyuv2": "16x32"}


def sixteen_bits(path: Path, colour: bool) -> None:
    """A 16-bit PNG, which Pillow can only write in grey; for colour its header and data are written by hand."""
    import struct
    import zlib

    channels = 3 if colour else 1
    rows = b"".join(b"\0" + np.full(128 * channels, 5000, ">u2").tobytes() for _ in range(64))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 128, 64, 16, 2 if colour else 0, 0, 0, 0))]
    parts += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def frame(folder: Path, kind: str) -> Path:
    """The first train image or label map of Cityscapes."""
    return sorted((folder / kind / "train").glob("*/*.png"))[0]


def all_labels(folder: Path, ids: np.ndarray) -> None:
    for path in (folder / "gtFine").glob("*/*/*.png"):
        Image.fromarray(ids.astype(np.uint8)).save(path)


def array(part: str, change):
    def spoil(folder: Path) -> None:
        path = folder / "train" / part / "2.npy"
        np.save(path, change(np.load(path)))

    return spoil


def appended(name: str, text: str):
    def spoil(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(text)

    return spoil


def one_hot(labels: np.ndarray) -> np.ndarray:
    return np.stack([labels == index for index in range(13)]).astype(np.uint8)


TRAIN_IDS = np.tile([0, 2, 8, 10, 13, 18, 255, 255], (64, 16))

BAD = {
    "16-bit image": (
        "cityscapes",
        lambda f: sixteen_bits(frame(f, "leftImg8bit"), True),
        "leftImg8bit.png is a PNG of 16",
    ),
    "16-bit labels": ("cityscapes", lambda f: sixteen_bits(frame(f, "gtFine"), False), "instanceIds have 16"),
    "colours as labels": (
        "cityscapes",
        lambda f: Image.new("RGB", (128, 64)).save(frame(f, "gtFine")),
        "labelIds.png is an image of mode RGB",
    ),
    "all train ids": ("cityscapes", lambda f: all_labels(f, TRAIN_IDS), "labelIds.png holds train ids"),
    "all train ids, none ignored": ("cityscapes", lambda f: all_labels(f, TRAIN_IDS % 19), "holds train ids"),
    "one of train ids": (
        "cityscapes",
        lambda f: Image.fromarray(TRAIN_IDS.astype(np.uint8)).save(frame(f, "gtFine")),
        "labelIds.png holds train ids",
    ),
    "labels of another size": (
        "cityscapes",
        lambda f: Image.fromarray(np.full((32, 64), 7, np.uint8)).save(frame(f, "gtFine")),
        "labelIds.png has 32x64 pixels, but",
    ),
    "millimetres": ("nyuv2", array("depth", lambda a: a * 1000), "depth/2.npy has a depth of"),
    "fractional labels": ("nyuv2", array("label", lambda a: a * 0 + 3.5), "label/2.npy has label 3.5"),
    "NaN labels": ("nyuv2", array("label", lambda a: a * np.nan), "label/2.npy has label nan"),
    "one-hot labels": ("nyuv2", array("label", one_hot), "label/2.npy has labels of shape [13, 32, 48]"),
    "a map of another size": ("nyuv2", array("label", lambda a: a[::2]), "label/2.npy has 16x48 pixels, but"),
    "normalised images": ("nyuv2", array("image", lambda a: a * 4 - 2), "image/2.npy has values from -2"),
    "16-bit arrays": ("nyuv2", array("image", lambda a: (a * 65535).astype(np.uint16)), "image/2.npy has values from"),
    "a partition row twice": (
        "celeba",
        appended("list_eval_partition.txt", "000003.jpg 1\n"),
        "lists '000003.jpg' twice",
    ),
    "an empty split": (
        "celeba",
        lambda f: (f / "list_eval_partition.txt").write_text("".join(f"{i:06d}.jpg {i // 7}\n" for i in range(1, 13))),
        "list_eval_partition.txt leaves split 'test' empty",
    ),
}


def run(monkeypatch, capsys, *words: str) -> str:
    """The one line of a command that ends with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 2, printed
    (line,) = printed.err.splitlines()
    return line


def written(dataset: str, folder: Path) -> Path:
    makers_of = {"celeba": makers.write_celeba, "cityscapes": makers.write_cityscapes, "nyuv2": makers.write_nyuv2_npy}
    return makers_of[dataset](folder)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_line(tmp_path, monkeypatch, capsys, case):
    dataset, spoil, message = BAD[case]
    spoil(written(dataset, tmp_path / "source"))
    words = ["--source", str(tmp_path / "source"), "--out", str(tmp_path / "out"), "--size", SIZE[dataset]]
    assert message in run(monkeypatch, capsys, "prepare", dataset, *words)
    assert not (tmp_path / "out" / dataset).exists()


def test_an_unreadable_folder_is_named(tmp_path, monkeypatch, capsys):
    source, scan = written("cityscapes", tmp_path / "source"), os.scandir

    def denied(path):
        if Path(path).name == "aachen":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", denied)
    line = run(monkeypatch, capsys, "prepare", "cityscapes", "--source", str(source))
    assert "leftImg8bit/train/aachen cannot be read: Permission denied" in line


def test_hidden_files_are_passed_over_and_a_byte_order_mark_is_read(tmp_path):
    source = written("celeba", tmp_path / "source")
    (source / "img_align_celeba" / "._000001.jpg").write_bytes(b"macOS")
    for name in ("list_attr_celeba.txt", "list_eval_partition.txt"):
        (source / name).write_bytes(b"\xef\xbb\xbf" + (source / name).read_bytes())
    found = prepared("celeba", source, tmp_path / "out", size="16x16")
    assert [len(found.arrays(split)["images"]) for split in ("train", "val", "test")] == [6, 3, 3]


def test_black_and_grey_normals_are_unknown_and_may_be_in_two_folders(tmp_path):
    source = makers.write_nyuv2_official(tmp_path / "source", 4, normals=True)
    order = np.array([3, 1, 4, 2])
    savemat(source / "splits.mat", {"trainNdxs": order[:2, None], "testNdxs": order[2:, None]})
    place = tmp_path / "png"
    for split, numbers in (("train", order[:2]), ("test", order[2:])):
        (place / split).mkdir(parents=True)
        for number in numbers:
            pixels = np.full((48, 64, 3), (128, 128, 0), dtype=np.uint8)
            pixels[:10], pixels[10:20] = 0, (127, 128, 127)
            Image.fromarray(pixels).save(place / split / f"{number:05d}.png")
    normals = prepared("nyuv2", source, tmp_path / "out", size="48x64", normals=place).arrays("test")["normals"]
    assert (normals[:, :, :20] == 0).all()
    assert np.abs(normals[:, :, 20:].astype(float) - np.array([0, 0, -1])[:, None, None]).max() < 0.01
    next((place / "test").iterdir()).unlink()
    with pytest.raises(UserError, match=r"png/test has normals for 1 images, but none for number \d of split 'test'"):
        prepared("nyuv2", source, tmp_path / "again", size="48x64", normals=place)


def test_an_older_layout_is_refused_with_the_command_that_renews_it(tmp_path, monkeypatch):
    source = written("celeba", tmp_path / "source")
    found = prepared("celeba", source, tmp_path / "out", size="16x16")
    manifest = json.loads((found.folder / "manifest.json").read_text())
    (found.folder / "manifest.json").write_text(json.dumps({**manifest, "version": 1}))
    with pytest.raises(UserError, match=r"prepared in layout 1, but .* reads 2: renew it with") as refused:
        PreparedSet(found.folder)
    command = str(refused.value).split("`")[1].split()
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert PreparedSet(found.folder).manifest.version == 2
    assert not list((tmp_path / "out").glob("*.older"))
    old = {key: value for key, value in manifest.items() if key != "origin"} | {"version": 1}
    (found.folder / "manifest.json").write_text(json.dumps(old))
    with pytest.raises(UserError, match=r"--source DIR --out \S+ --size 16x16`, where DIR is the folder"):
        PreparedSet(found.folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Prepared faces and scenes."""
    folder = tmp_path_factory.mktemp("small")
    for dataset in ("celeba", "nyuv2"):
        prepared(dataset, written(dataset, folder / "source" / dataset), folder / "out", size="16x16")
    return folder / "out"


def test_batches_of_one_sample_and_a_missing_test_file_are_said_before_training(small, tmp_path, monkeypatch, capsys):
    words = [
        "train",
        "celeba",
        "--data",
        str(small),
        "--strategy",
        "sus",
        "--lr",
        "1e-3",
        "--out",
        str(tmp_path / "run"),
    ]
    words += ["--set", "model_channels=4"]
    assert "batch_size=1, but this network" in run(monkeypatch, capsys, *words, "--batch-size", "1")
    line = run(monkeypatch, capsys, *words, "--batch-size", "2", "--eval-batch-size", "2")
    assert "eval_batch_size=2 leaves one of the 3 samples of 'val'" in line
    monkeypatch.setattr("tune_mtl.training.trainer.Trainer.run_period", lambda *_: pytest.fail("it has begun to train"))
    (small / "celeba" / "test_images.npy").rename(tmp_path / "kept.npy")
    assert "test_images.npy cannot be read" in run(monkeypatch, capsys, *words, "--batch-size", "2")
    (tmp_path / "kept.npy").rename(small / "celeba" / "test_images.npy")


@pytest.mark.parametrize(("name", "more"), [("celeba", {}), ("nyuv2", {"protocol": "paper"})])
def test_prepared_sets_have_no_findings(small, name, more):
    given = {"problem_data": str(small), "model_channels": 4, "batch_size": 2}
    assert check_problem(name, {**given, **more}) == []


def test_the_papers_space_has_its_protocol_unless_another_is_asked_for(small, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_DATA", str(small))
    look = "tune_mtl.experiment.planning.make.require_trainable"
    monkeypatch.setattr(look, lambda *_: None)  # holdout leaves one sample in val
    given = {"space": "paper", "strategies": ["sus"], "fixed": {"model_channels": 4, "batch_size": 2}}
    paper = plan_search("nyuv2", **given)
    assert paper.problem.protocol == "paper"
    assert [len(paper.problem.data(split)) for split in ("train", "val")] == [6, 4]
    assert "selected on the official test split" in paper.problem.protocol_text
    assert paper.completed(next(paper.space.grid("sus")))["protocol"] == "paper"
    for key in ("protocol", "problem_protocol"):
        own = plan_search("nyuv2", **{**given, "fixed": {**given["fixed"], key: "holdout"}})
        assert own.problem.protocol == "holdout"
    assert plan_search("nyuv2", **{**given, "space": "wide"}).problem.protocol == "holdout"
    assert plan_search(load_problem("nyuv2"), **given).problem.protocol == "holdout"
    assert "protocol" not in plan_search("celeba", **given).settings.fixed


def test_a_plan_shows_values_seeds_batches_and_protocol(small, monkeypatch, capsys):
    words = ["search", "nyuv2", "--data", str(small), "--space", "paper", "--strategies", "sus,io", "--dry-run"]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["tune-mtl", *words, "--set", "model_channels=4", "--set", "batch_size=2"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert "lr: 2e-05, 5e-05, 0.0001, 0.0002, 0.0005, 0.001;" in shown
    assert "groups: 3" in shown
    assert "Seeds 0, 1, 2; batch size 2, 8 in evaluation." in shown
    assert "Protocol paper: all of train is trained on, selected on the official test split" in shown
    assert "extrapolated from a few small mini-batches: sus was timed on mini-batches of" in shown


def test_the_missing_test_data_of_ones_own_problem_are_said_first(monkeypatch):
    from tests.toys import toy_problem

    problem = toy_problem(2)
    given = problem.data

    def data(split):
        if split == "test":
            raise UserError("there is no test file")
        return given(split)

    problem.data = data
    monkeypatch.setattr("tune_mtl.training.trainer.Trainer.run_period", lambda *_: pytest.fail("it has begun to train"))
    with pytest.raises(UserError, match="there is no test file"):
        train(problem, {"strategy": "sus", "lr": 1e-2, "epochs": 1})
