"""The whole examination of a device: laws, speed and memory of each strategy, within a time, on one page."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.preflight.device.laws import CountWaits, Verdict, check
from tune_mtl.preflight.device.speed import Cost, cost, loading, ways
from tune_mtl.preflight.device.workload import workload
from tune_mtl.strategies.admission import admit
from tune_mtl.strategies.registry import entries
from tune_mtl.training.memory import capacity
from tune_mtl.training.network import choose_device
from tune_mtl.training.trial import torch_settings


@dataclass
class Examined:
    """What was found on a device.

    Attributes:
        facts: What the machine is, by name.
        title: The network whose steps were timed.
        verdicts: By strategy.
        costs: By strategy; a text where it could not be timed.
        ways: Other ways to take a step of SUS.
        loading: Seconds of an epoch's data, and of the whole epoch; None where it failed or was left out.
        left_out: Strategies for which there was no time, or that are not installed, and why.
    """

    facts: dict[str, str]
    title: str = ""
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    costs: dict[str, Cost | str] = field(default_factory=dict)
    ways: dict[str, Cost | str] = field(default_factory=dict)
    loading: tuple[float, float] | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[tuple[str, Verdict]]:
        """The laws that were broken, each with its strategy."""
        return [(name, one) for name, found in self.verdicts.items() for one in found if one.state == "failed"]


def examine_device(
    device: str,
    *,
    strategies: Sequence[str] | None = None,
    minutes: float = 10.0,
    told: Callable[[str], None] = lambda _: None,
    count_waits: CountWaits | None = None,
) -> Examined:
    """Hold strategies to the laws of `doctor --device` on a device, and time them there.

    Args:
        device: ``cuda``, ``cuda:1``, ``cpu``, ...
        strategies: By name, or ``package.module:Class``; default: all that are built in.
        minutes: No strategy is begun after so long; those left are named.
        told: Called with a line for each thing that is about to be done.
        count_waits: What counts waits on a device that is neither CUDA nor the CPU.

    Raises:
        UserError: for a device that is not there, an unknown strategy, or no time.
    """
    if not minutes > 0:
        raise UserError(f"minutes={minutes:g} must be above 0.")
    names = [admit(name) for name in strategies or entries]
    with torch_settings(deterministic=False):
        torch.set_num_threads(1)
        return _examine(choose_device(device), names, minutes, told, count_waits)


def _examine(
    place: torch.device, names: list[str], minutes: float, told: Callable[[str], None], counter: CountWaits | None
) -> Examined:
    begun, found, work = time.monotonic(), Examined(facts(place)), workload(place)
    found.title = work.title
    for number, name in enumerate(names, start=1):
        if time.monotonic() - begun > 60 * minutes:
            found.left_out[name] = f"no time: {minutes:g} minutes were over"
            continue
        told(f"{name} ({number} of {len(names)})")
        verdicts = check(name, place, counter)
        missing = next((one.said for one in verdicts if "not installed" in one.said), None)
        if missing is not None:
            found.left_out[name] = missing
            continue
        found.verdicts[name] = verdicts
        found.costs[name] = _tried(lambda name=name: cost(name, work, place))  # type: ignore[misc]
    for way, measure in ways(work, place):
        told(f"a step with {way}")
        found.ways[way] = _tried(measure)
    told("data loading against compute")
    try:
        found.loading = loading(place)
    except Exception as error:  # it is said on the page
        found.facts["data loading failed"] = _line(error)
    return found


def facts(device: torch.device) -> dict[str, str]:
    """Return what a reader must know of the machine; nothing of it names the machine or its user."""
    known = {
        "device": str(device),
        "memory": f"{capacity(device) / 2**30:.1f} GiB",
        "tune-mtl": metadata.version("tune-mtl"),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        known |= {
            "device": f"{device}: {properties.name}, compute {properties.major}.{properties.minor}",
            "CUDA": str(torch.version.cuda),
            "cuDNN": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "bf16": "yes" if torch.cuda.is_bf16_supported() else "no",
        }
    return known


def _tried(measure: Callable[[], Cost]) -> Cost | str:
    try:
        return measure()
    except Exception as error:  # out of memory on a small GPU, say
        return _line(error)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
