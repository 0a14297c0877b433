"""From official files to prepared sets: every value against an independent expectation."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import loadmat

from tests.prepare import makers
from tests.test_cli import tune_mtl as command
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.prepare.cityscapes import CATEGORIES
from tune_mtl.prepare.datasets import open_source, prepare_source
from tune_mtl.prepare.normals import normals_from_depth
from tune_mtl.prepare.prepared_set import MappedData, PreparedSet


def prepared(dataset: str, folder: Path, out: Path, *, size=None, normals=None, **keywords) -> PreparedSet:
    prepare_source(open_source(dataset, folder, size, normals), out, **keywords)
    found = PreparedSet(out / dataset)
    assert found.problems() == []
    return found


@pytest.mark.parametrize("form", ["flat", "release", "zip", "csv"])
def test_celeba_in_every_form(tmp_path, form):
    found = prepared("celeba", makers.write_celeba(tmp_path / "source", 12, form=form), tmp_path / "out")
    assert found.manifest.notes["attributes"] == makers.ATTRIBUTES
    assert [len(found.arrays(split)["images"]) for split in ("train", "val", "test")] == [6, 3, 3]
    first = 0
    for split in ("train", "val", "test"):
        arrays = found.arrays(split)
        assert arrays["images"].shape[1:] == (3, 64, 64)
        assert arrays["images"].dtype == np.uint8
        for row in range(len(arrays["images"])):
            colour = np.array(makers.celeba_colour(first + row))[:, None, None]
            assert np.abs(arrays["images"][row].astype(int) - colour).max() <= 4  # JPEG
            bits = np.unpackbits(arrays["attributes"][row])[:40]
            assert bits.tolist() == [int(value > 0) for value in makers.celeba_values(first + row)]
        first += len(arrays["images"])


def test_celeba_is_resized_as_pillow_does(tmp_path):
    source = makers.write_celeba(tmp_path / "source", 4)
    noise = np.random.default_rng(0).integers(0, 256, (14, 11, 3), dtype=np.uint8)
    large = Image.fromarray(noise).resize((178, 218), Image.Resampling.BICUBIC)
    path = source / "img_align_celeba" / "000001.jpg"
    large.save(path, quality=95)
    expected = np.asarray(Image.open(path).resize((64, 64), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    got = prepared("celeba", source, tmp_path / "out").arrays("train")["images"][0]
    assert np.abs(got.astype(int) - expected).mean() < 1.5


def test_cityscapes_categories(tmp_path):
    source = makers.write_cityscapes(tmp_path / "source", 6, 3, shape=(256, 512))
    found = prepared("cityscapes", source, tmp_path / "out")
    assert found.manifest.source == {"train": 5, "val": 3, "without_labels": 1}
    assert found.manifest.notes["categories"] == list(CATEGORIES)
    groups = {"flat": {7, 8}, "construction": {11, 12, 13}, "object": {17, 19, 20}, "nature": {21, 22}, "sky": {23}}
    groups |= {"human": {24, 25}, "vehicle": {26, 27, 28, 31, 32, 33}}
    for split, city, count in (("train", "aachen", 5), ("val", "frankfurt", 3)):
        arrays = found.arrays(split)
        assert arrays["images"].shape == (count, 3, 128, 256)
        for row in range(count):
            stem = source / "gtFine" / split / city / f"{city}_{row:06d}_000019_gtFine_labelIds.png"
            ids = np.asarray(Image.open(stem))[::2, ::2]
            for number, wanted in enumerate(groups.values(), start=1):
                assert np.array_equal(arrays["categories"][row] == number, np.isin(ids, list(wanted)))
            image = np.asarray(
                Image.open(str(stem).replace("gtFine", "leftImg8bit", 1).replace("_gtFine_labelIds", "_leftImg8bit"))
            )
            inside = np.zeros(256, dtype=bool)
            for quarter in range(4):
                inside[64 * quarter + 4 : 64 * quarter + 60] = True
            expected = image[::2, ::2].transpose(2, 0, 1)[:, :, inside]
            assert np.array_equal(arrays["images"][row][:, :, inside], expected)


@pytest.mark.parametrize("channels_first", [False, True])
def test_nyuv2_preprocessed(tmp_path, channels_first):
    source = makers.write_nyuv2_npy(tmp_path / "source", channels_first=channels_first)
    found = prepared("nyuv2", source, tmp_path / "out", size="32x48")
    for split, count, first in (("train", 6, 0), ("test", 4, 1000)):
        arrays = found.arrays(split)
        for row in range(count):
            expected = makers.nyu_arrays(first + row, (32, 48))
            image = np.rint(expected["image"] * 255).transpose(2, 0, 1)
            assert np.array_equal(arrays["images"][row], image)
            assert np.array_equal(arrays["labels"][row], np.where(expected["label"] < 0, 255, expected["label"]))
            assert np.abs(arrays["depth"][row].astype(float) - expected["depth"]).max() < 0.005
            assert arrays["depth"][row].max() > 6.6  # not wrapped
            normals = arrays["normals"][row].astype(float)
            assert np.abs(normals - expected["normal"].transpose(2, 0, 1)).max() < 1e-3


@pytest.mark.parametrize("direct", [False, True])
def test_nyuv2_official(tmp_path, direct):
    source = makers.write_nyuv2_official(tmp_path / "source", direct=direct)
    found = prepared("nyuv2", source, tmp_path / "out", size="48x64")
    assert found.manifest.notes["normals"].startswith("computed from depth")
    splits = loadmat(source / "splits.mat")
    with h5py.File(source / "nyu_depth_v2_labeled.mat") as file:
        for split, variable in (("train", "trainNdxs"), ("test", "testNdxs")):
            for row, number in enumerate(splits[variable].ravel()):
                arrays = {name: array[row] for name, array in found.arrays(split).items()}
                assert np.array_equal(arrays["images"], file["images"][number - 1].transpose(0, 2, 1))
                ids = file["labels"][number - 1].T.astype(int)
                expected = np.where(ids == 0, 255, ((ids - 1) % 40) % 13)
                assert np.array_equal(arrays["labels"], expected)
                assert np.abs(arrays["depth"].astype(float) - file["depths"][number - 1].T).max() < 0.005
                assert np.abs(np.linalg.norm(arrays["normals"].astype(float), axis=0) - 1).max() < 2e-3


def test_nyuv2_official_normals_from_a_folder(tmp_path):
    source = makers.write_nyuv2_official(tmp_path / "source", normals=True)
    found = prepared("nyuv2", source, tmp_path / "out", size="48x64")
    splits = loadmat(source / "splits.mat")
    for row, number in enumerate(splits["trainNdxs"].ravel()):
        normals = found.arrays("train")["normals"][row].astype(float)
        assert np.abs(normals[:, 10, number * 2 + 3] - [0, 0, 1]).max() < 0.01
        assert np.abs(normals[:, 10, number * 2 - 2] - [1, 0, 0]).max() < 0.01


def test_normals_of_a_wall_and_a_floor():
    wall = normals_from_depth(np.full((60, 80), 3.0))
    assert np.allclose(wall[:, 5:-5, 5:-5], np.array([0.0, 0.0, -1.0])[:, None, None], atol=1e-9)
    down = (np.arange(60)[:, None] - 253.7362 / 8) / (519.4696 / 8)
    floor = normals_from_depth(np.where(down > 0.05, 1.5 / np.maximum(down, 0.05), 0.0).repeat(80, axis=1))
    inside = floor[:, 45:58, 5:-5]
    assert np.degrees(np.arccos(np.clip(-inside[1], -1, 1))).max() < 5
    assert (floor[:, :20] == 0).all()


def test_a_batch_is_the_rows_asked_for(tmp_path):
    found = prepared("celeba", makers.write_celeba(tmp_path / "source", 16), tmp_path / "out", size="32x32")
    import torch

    data = MappedData(found.arrays("train"), np.array([1, 3, 5, 7]))
    batch = data.batch(torch.tensor([2, 0]))
    assert len(data) == 4
    assert np.array_equal(batch.inputs.numpy(), found.arrays("train")["images"][[5, 1]])
    assert np.array_equal(batch.targets["attributes"].numpy(), found.arrays("train")["attributes"][[5, 1]])


SLOWLY = """
import sys, time
from pathlib import Path
from tune_mtl.prepare import datasets, writer
from dataclasses import replace
source = datasets.open_source("celeba", Path(sys.argv[1]), "16x16", None)
def read(face, slow=source.read):
    time.sleep(0.004)
    return slow(face)
writer._CHUNK = 16
reads = []
counted = lambda face: reads.append(face) or read(face)
datasets.prepare_source(replace(source, read=counted), Path(sys.argv[2]), workers=2)
print(len(reads))
"""


@pytest.mark.timeout(200)
def test_killed_and_run_again_gives_the_same(tmp_path):
    source = makers.write_celeba(tmp_path / "source", 400)
    words = [sys.executable, "-c", SLOWLY, str(source), str(tmp_path / "killed")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = tmp_path / "killed" / "celeba.partial" / "done"
    for wanted in (3, 12):
        process = subprocess.Popen(words, env=environment)
        while process.poll() is None and not (done.exists() and len(list(done.glob("[a-z]*"))) >= wanted):
            time.sleep(0.02)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "killed" / "celeba").exists()
    before = len(list(done.glob("[a-z]*")))
    assert 12 <= before < 25
    last = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert int(last.stdout) <= 400 - 16 * (before - 3)  # a split's last chunk may hold fewer than 16
    whole = prepared("celeba", source, tmp_path / "whole", size="16x16")
    resumed = PreparedSet(tmp_path / "killed" / "celeba")
    assert resumed.manifest == whole.manifest
    assert sorted(path.name for path in resumed.folder.iterdir()) == sorted(p.name for p in whole.folder.iterdir())


def test_bad_images_stop_or_are_left_out(tmp_path):
    source = makers.write_celeba(tmp_path / "source", 12)
    images = source / "img_align_celeba"
    (images / "000002.jpg").write_bytes((images / "000002.jpg").read_bytes()[:200])
    (images / "000005.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"00000[25]\.jpg cannot be decoded.*--skip-bad"):
        prepared("celeba", source, tmp_path / "out", size="16x16")
    assert not (tmp_path / "out" / "celeba").exists()
    found = prepared("celeba", source, tmp_path / "out", size="16x16", skip_bad=True)
    assert len(found.manifest.skipped) == 2
    arrays = found.arrays("train")
    assert len(arrays["images"]) == 4
    for row, index in enumerate((0, 2, 3, 5)):
        assert np.unpackbits(arrays["attributes"][row])[:40].tolist() == [
            int(v > 0) for v in makers.celeba_values(index)
        ]


def lose(path: str):
    return lambda folder: (folder / path).unlink()


def rewrite(path: str, change):
    def edit(folder: Path) -> None:
        (folder / path).write_text(change((folder / path).read_text()))

    return edit


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lose("list_attr_celeba.txt"), r"has no list 'list_attr_celeba'.*it holds img_align_celeba/"),
        (lose("list_eval_partition.txt"), "has no list 'list_eval_partition'"),
        (lose("img_align_celeba/000003.jpg"), "do not match: 1 are in the attribute list.*'000003.jpg'"),
        (
            rewrite("list_eval_partition.txt", lambda t: t.replace("000004.jpg 0", "000004.jpg 7")),
            "must be a file and 0, 1",
        ),
        (rewrite("list_attr_celeba.txt", lambda t: t.replace("12\n", "13\n", 1)), "says 13 images, but lists 12"),
        (rewrite("list_attr_celeba.txt", lambda t: t[:-4] + "\n"), "must have 40 values"),
        (rewrite("list_eval_partition.txt", lambda t: t.split("\n", 1)[1]), "are in one of the two lists only"),
    ],
)
def test_lists_and_images_must_match(tmp_path, spoil, message):
    source = makers.write_celeba(tmp_path / "source", 12)
    spoil(source)
    with pytest.raises(UserError, match=message):
        open_source("celeba", source, None, None)


def test_what_is_wrong_inside_files_is_named(tmp_path):
    city = makers.write_cityscapes(tmp_path / "city")
    path = next((city / "gtFine" / "val").glob("*/*.png"))
    Image.fromarray(np.full((64, 128), 77, dtype=np.uint8)).save(path)
    with pytest.raises(UserError, match="has label id 77"):
        prepared("cityscapes", city, tmp_path / "out", size="16x32")
    rooms = makers.write_nyuv2_npy(tmp_path / "rooms")
    np.save(rooms / "train" / "depth" / "2.npy", np.full((32, 48, 1), np.nan))
    with pytest.raises(UserError, match=r"2\.npy has a depth that is negative or no number"):
        prepared("nyuv2", rooms, tmp_path / "out", size="32x48")
    np.save(rooms / "train" / "depth" / "2.npy", np.ones((32, 48, 1)))
    np.save(rooms / "train" / "label" / "2.npy", np.full((32, 48), 13.0))
    with pytest.raises(UserError, match="has label 13, but labels go from -1 to 12"):
        prepared("nyuv2", rooms, tmp_path / "out", size="32x48")
    (rooms / "train" / "normal" / "1.npy").unlink()
    with pytest.raises(UserError, match=r"image and normal do not match.*'1\.npy'"):
        open_source("nyuv2", rooms, None, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mnist", "--source", "."], "unknown data set 'mnist'"),
        (["celeba", "--source", "nowhere"], "--source nowhere is no folder"),
        (["celeba", "--source", "."], "has no images"),
        (["cityscapes", "--source", ".", "--size", "3x3"], "multiples of 16"),
        (["celeba", "--source", ".", "--size", "big"], "must be HEIGHTxWIDTH"),
        (["celeba", "--source", ".", "--normals", "."], "--normals belongs to nyuv2"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "prepare", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_the_command_prepares_and_the_doctor_looks(tmp_path):
    makers.write_cityscapes(tmp_path / "source")
    words = ["--source", "source", "--out", "out", "--size", "16x32"]
    done = command("prepare", "cityscapes", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: 1 frames have no labels" in done.stdout
    assert "prepared cityscapes: train 5, val 3" in done.stdout
    again = command("prepare", "cityscapes", *words, cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    file = tmp_path / "out" / "cityscapes" / "train_images.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    ill = command("doctor", "--data", "out", cwd=tmp_path)
    assert ill.returncode == 1
    assert "train_images.npy is not what was prepared" in ill.stdout


def test_another_version_and_a_short_file_are_refused(tmp_path):
    found = prepared("celeba", makers.write_celeba(tmp_path / "source", 4), tmp_path / "out", size="16x16")
    np.save(found.folder / "val_images.npy", np.zeros((9, 3, 16, 16), dtype=np.uint8))
    with pytest.raises(UserError, match="but the manifest says"):
        found.arrays("val")
    manifest = json.loads((found.folder / "manifest.json").read_text())
    (found.folder / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(UserError, match="was prepared in layout 99"):
        PreparedSet(found.folder)
    (found.folder / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        PreparedSet(found.folder)


def test_too_little_disk_is_said_first(tmp_path, monkeypatch):
    source = makers.write_celeba(tmp_path / "source", 4)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(UserError, match=r"celeba needs .* GiB .* only 0\.0 GiB are free"):
        prepared("celeba", source, tmp_path / "out")
    assert not (tmp_path / "out" / "celeba.partial").exists()


def test_jpegs_that_end_early_are_bad():
    from tune_mtl.prepare.images import decode_rgb
    from tune_mtl.prepare.source import BadSample

    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (218, 178, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    content = buffer.getvalue()
    for length in (0, 10, 300, len(content) // 2):
        with pytest.raises(BadSample, match="here"):
            decode_rgb(content[:length], "here", (64, 64))
