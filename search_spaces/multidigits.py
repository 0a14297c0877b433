"""`multidigits`: learning rates around those at which its small network trains well."""

from search_spaces.default import PAPER_STRATEGIES, make_spaces
from search_spaces.space import LogRange, Space


def spaces(tasks: list[str]) -> dict[str, Space]:
    """The paper's protocol on a 1-2-5 grid, and a wide range on both sides of it."""
    return make_spaces(
        tasks,
        paper_lr=LogRange(5e-4, 2e-2),
        wide_lr=LogRange(1e-4, 1e-1),
        paper_strategies=(*PAPER_STRATEGIES, "mr"),
    )
