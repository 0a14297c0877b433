"""Writes the tables of `strategies.md` from the registry: `python docs/generate.py`. A test sees that it was done."""

import re
from pathlib import Path

from tune_mtl.core.options import ShareOfRun
from tune_mtl.strategies.registry import StrategyInfo, registry

PAGE = Path(__file__).with_name("strategies.md")
HEADER = ("strategy", "one mini-batch is", "forward", "backward", "states", "memory besides", "options", "reference")


def options(info: StrategyInfo) -> str:
    fields = info.options.model_fields.items()
    shares = info.options.marked(ShareOfRun)
    shown = [
        f"`{info.name}_{name}` = "
        + (f"{field.default!r}" if name not in shares else f"{shares[name].share:.0%} of a trial's mini-batches")
        for name, field in fields
    ]
    return ", ".join([*(["`groups`"] if info.has_groups else []), *shown]) or "-"


def row(info: StrategyInfo) -> str:
    cells = (
        f"**`{info.name}`** {info.title}",
        info.rule,
        info.forwards,
        info.backwards,
        info.states,
        info.memory,
        options(info),
        info.reference,
    )
    return "| " + " | ".join(cells) + " |"


def table(infos: list[StrategyInfo]) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER), *map(row, infos)]
    return "\n".join(lines)


def differing() -> str:
    found = [f"- `{info.name}`: {info.differs_from_sus}." for info in registry.values() if info.differs_from_sus]
    return "\n".join(found)


def filled(page: str) -> str:
    """The page with everything between its markers made anew."""
    parts = {"every strategy": table(list(registry.values())), "not sus": differing()}
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        page = re.sub(f"{begin}.*?{end}", lambda _, t=text, b=begin, e=end: f"{b}\n{t}\n{e}", page, flags=re.S)
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
