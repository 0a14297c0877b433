"""Order and batches: which samples come when, and getting them to the device."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from tune_mtl.core.data import Batch, Data, LoadedData
from tune_mtl.core.seeds import derive, generator

_AHEAD = 2


def training_order(samples: int, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """Return the mini-batches of an epoch: a permutation drawn from seed and epoch, without a last partial one."""
    shuffled = torch.randperm(samples, generator=generator(seed, "order", epoch))
    return list(torch.split(shuffled[: samples - samples % batch_size], batch_size))


def evaluation_order(samples: int, batch_size: int) -> list[Tensor]:
    """Return all samples in order; a last batch of one joins the one before it (BatchNorm cannot normalise one)."""
    order = list(torch.split(torch.arange(samples), batch_size))
    if len(order) > 1 and len(order[-1]) == 1:
        order[-2:] = [torch.cat(order[-2:])]
    return order


def batches(
    data: Data, order: Sequence[Tensor], place: Callable[[Batch], Batch], device: torch.device, seed: int, epoch: int
) -> Iterator[Batch]:
    """Return the batches of ``order``, each put in place by ``place``; read ahead in the background for a GPU.

    Data that bring their own ``batches`` may draw random numbers while loading: those load in this thread, or in worker
    processes of their own.
    """
    random = isinstance(data, LoadedData)
    loaded: Iterator[Batch]
    if isinstance(data, LoadedData):
        loaded = data.batches(order, derive(seed, "samples", epoch))
    else:
        loaded = map(data.batch, order)
    loaded = (batch if isinstance(batch, Batch) else Batch(*batch) for batch in loaded)
    if device.type == "cuda":
        loaded = map(Batch.pin_memory, loaded)
        loaded = loaded if random else _read_ahead(loaded)
    return map(place, loaded)


def gathered(coming: Iterable[Batch], count: int) -> Iterator[list[Batch]]:
    """Yield lists of ``count`` batches, the last of what is left; none is asked for before its list's turn."""
    source = iter(coming)
    while together := list(islice(source, count)):
        yield together


def _read_ahead(source: Iterator[Batch]) -> Iterator[Batch]:
    """``source``, consumed by a thread that stays ``_AHEAD`` items ahead and stops when the reader does."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item: Batch | BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def fill() -> None:
        try:
            for item in source:
                put(item)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=fill, name="tune-mtl-read-ahead", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
