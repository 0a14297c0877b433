"""Samples per second of the prepared reader against decoding the official files, and what more processes cost.

Images are made here, in the official formats and sizes (JPEG 178x218, PNG 1024x2048 with label maps, .npy 288x384), and
read batch by batch, ready for the network: by a `DataLoader` that decodes and resizes with two workers, as the paper's
scripts do, and by the reader of the prepared set. Both in one run, one after the other, medians of several passes.

    python benchmarks/data_loading.py [--celeba 1024] [--cityscapes 24] [--nyuv2 32]
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import InterpolationMode, pil_to_tensor, resize

from tests.prepare import makers
from tune_mtl import Problem, load_problem
from tune_mtl.prepare.cityscapes import category_of_id
from tune_mtl.prepare.datasets import open_source, prepare_source

BATCH = {"celeba": 256, "cityscapes": 24, "nyuv2": 8}
PASSES = 3


def noisy(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """An image that compresses about as a photograph does."""
    height, width = shape[:2]
    small = np.random.default_rng(seed).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


class Celeba(Dataset):
    def __init__(self, folder: Path) -> None:
        self.files = sorted((folder / "img_align_celeba").iterdir())

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int):
        image = resize(pil_to_tensor(Image.open(self.files[index])), [64, 64], antialias=True)
        return image.float() / 255, torch.zeros(40)


class Cityscapes(Dataset):
    def __init__(self, folder: Path) -> None:
        self.files = sorted((folder / "leftImg8bit" / "train").glob("*/*.png"))[:-1]
        self.table = torch.from_numpy(category_of_id())

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int):
        path = str(self.files[index])
        labels = path.replace("leftImg8bit/train", "gtFine/train").replace("leftImg8bit.png", "gtFine_labelIds.png")
        image = resize(pil_to_tensor(Image.open(path)), [128, 256], antialias=True)
        ids = resize(pil_to_tensor(Image.open(labels)), [128, 256], InterpolationMode.NEAREST_EXACT)[0]
        return image.float() / 255, torch.stack([(self.table[ids.long()] == k).float() for k in range(1, 8)])


class NYUv2(Dataset):
    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder / "train", len(list((folder / "train" / "image").iterdir()))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        parts = [np.load(self.folder / part / f"{index}.npy") for part in ("image", "label", "depth", "normal")]
        return tuple(torch.from_numpy(part).float() for part in parts)


def write_source(name: str, folder: Path, count: int) -> None:
    if name == "celeba":
        makers.write_celeba(folder, 2 * count)
        for index, path in enumerate(sorted((folder / "img_align_celeba").iterdir())):
            Image.fromarray(noisy((218, 178), index)).save(path, quality=90)
    elif name == "cityscapes":
        makers.write_cityscapes(folder, count + 1, 2, shape=(1024, 2048))
        for index, path in enumerate(sorted((folder / "leftImg8bit").glob("*/*/*.png"))):
            Image.fromarray(noisy((1024, 2048), index)).save(path)
    else:
        makers.write_nyuv2_npy(folder, count, 2, shape=(288, 384))


def ours(problem: Problem, batch_size: int) -> Iterator[int]:
    """Batches of one pass over the training rows, in random order, as floats."""
    data = problem.data("train")
    assert data is not None
    for indices in torch.randperm(len(data)).split(batch_size):
        yield problem.to_device(data.batch(indices), torch.Generator()).size


def decoding(dataset: Dataset, batch_size: int) -> Callable[[], Iterator[int]]:
    loader = DataLoader(dataset, batch_size, shuffle=True, num_workers=2, persistent_workers=True)
    return lambda: (len(batch[0]) for batch in loader)


def rate(one_pass: Callable[[], Iterator[int]]) -> float:
    """Samples per second, the first pass (starting workers, filling caches) left out."""
    found = []
    for number in range(PASSES + 1):
        started = time.perf_counter()
        samples = sum(one_pass())
        if number:
            found.append(samples / (time.perf_counter() - started))
    return statistics.median(found)


def resident(folder: str) -> float:
    """MiB of the set's files in this process, shared pages divided among those that share them."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = folder in line
        elif inside and line.startswith("Pss:"):
            total += int(line.split()[1])
    return total / 1024


def read_and_report(name: str, folder: str, ready, report) -> None:
    os.environ["TUNE_MTL_DATA"] = folder
    torch.set_num_threads(1)
    splits = [load_problem(name).data(split) for split in ("train", "val", "test")]
    for data in splits:
        for indices in torch.arange(len(data)).split(BATCH[name]):
            data.batch(indices)
    ready.wait()
    report.put(resident(folder))
    ready.wait()


def total_memory(name: str, folder: str, processes: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready, report = context.Barrier(processes), context.Queue()
    workers = [context.Process(target=read_and_report, args=(name, folder, ready, report)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    total = sum(report.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("celeba", 1024), ("cityscapes", 24), ("nyuv2", 32)):
        parser.add_argument(f"--{name}", type=int, default=count, help="training samples")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    datasets = {"celeba": Celeba, "cityscapes": Cityscapes, "nyuv2": NYUv2}
    columns = (
        "data set",
        "decoding, samples/s",
        "prepared, samples/s",
        "ratio",
        "set, MiB",
        "1 process holds",
        "4 hold",
    )
    print("| " + " | ".join(columns) + " |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, dataset in datasets.items():
            source, out = Path(scratch, "source", name), Path(scratch, "out")
            write_source(name, source, getattr(arguments, name))
            prepare_source(open_source(name, source, None, None), out)
            os.environ["TUNE_MTL_DATA"] = str(out)
            problem = load_problem(name)
            slow = rate(decoding(dataset(source), BATCH[name]))
            fast = rate(lambda name=name, problem=problem: ours(problem, BATCH[name]))
            size = sum(path.stat().st_size for path in (out / name).iterdir()) / 2**20
            alone, four = (total_memory(name, str(out), count) for count in (1, 4))
            speeds = (name, f"{slow:.0f}", f"{fast:.0f}", f"{fast / slow:.0f}")
            cells = (*speeds, f"{size:.0f}", f"{alone:.0f}", f"{four:.0f}")
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
