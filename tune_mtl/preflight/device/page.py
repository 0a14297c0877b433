"""The page of `doctor --device`: one Markdown file that a user can read, and send."""

from collections.abc import Iterable, Sequence

from tune_mtl.preflight.device.examine import Examined
from tune_mtl.preflight.device.laws import TOLERANCE
from tune_mtl.preflight.device.speed import Cost
from tune_mtl.strategies.registry import strategy_info

_LAWS = {
    "numbers": f"two epochs there, evaluated and resumed, end where the CPU's do, up to {TOLERANCE:.0%} of the way",
    "waits": "a step makes the host wait no more often than the strategy's record says",
    "repeats": "with deterministic kernels a second run, resumed in its middle, is the same bit for bit",
    "gathered": "accumulate=2 with checkpoint_trunk=true ends where the CPU's does",
}


def page(found: Examined) -> str:
    """Return the page."""
    broken = found.failures
    tried = len(found.verdicts)
    verdict = f"all laws hold for {tried} strategies" if not broken else f"{len(broken)} laws broken"
    parts: list[str] = [
        f"# tune-mtl on {found.facts['device']}: {verdict}",
        _table(("", ""), found.facts.items()),
        *([f"## Broken\n\n{_list(f'`{name}`, {one.law}: {one.said}' for name, one in broken)}"] if broken else []),
        f"## Laws\n\n{_list(f'**{name}**: {text}' for name, text in _LAWS.items())}",
        _laws_table(found),
        f"## Speed and memory\n\nA step on: {found.title}. Its path is traced. The bare loop is plain torch,"
        " one step of fused Adam on the sum of all losses, and takes turns with what is timed: medians of seven steps."
        " Other work on the machine makes single lines wrong: look again while there is none.",
        _cost_table(found),
        _loading(found),
        _left_out(found),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _laws_table(found: Examined) -> str:
    rows = [
        (f"`{name}`", *(one.said if one.state == "ok" else f"**{one.state}** {one.said}" for one in verdicts))
        for name, verdicts in found.verdicts.items()
    ]
    return _table(("strategy", *_LAWS), rows)


def _cost_table(found: Examined) -> str:
    rows = []
    for name, measured in found.costs.items():
        info = strategy_info(name)
        rows.append(_cost_row(f"`{name}`", measured, f"{info.forwards} / {info.backwards}"))
    rows += [_cost_row(f"`sus`, {way}", measured, "1 / 1") for way, measured in found.ways.items()]
    return _table(("", "ms a step", "times the bare loop", "peak MiB", "passes forward / back"), rows)


def _cost_row(label: str, measured: Cost | str, passes: str) -> Sequence[object]:
    if isinstance(measured, str):
        return label, measured, "-", "-", passes
    peak = "not counted here" if measured.peak is None else f"{measured.peak / 2**20:.0f}"
    return label, f"{1e3 * measured.seconds:.2f}", f"{measured.ratio:.2f}", peak, passes


def _loading(found: Examined) -> str:
    if found.loading is None:
        return ""
    loaded, epoch = found.loading
    return (
        f"## Data\n\nAn epoch of multidigits takes {epoch:.2f} s with `sus`; its data alone come to the device in"
        f" {1e3 * loaded:.0f} ms ({loaded / epoch:.0%})."
    )


def _left_out(found: Examined) -> str:
    if not found.left_out:
        return ""
    return f"## Left out\n\n{_list(f'`{name}`: {why}' for name, why in found.left_out.items())}"


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
