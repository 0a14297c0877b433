"""`glyphs`: the paper's third experiment in small, with its group counts and strategies."""

from search_spaces.default import PAPER_STRATEGIES, make_spaces
from search_spaces.space import LogRange, Space


def spaces(tasks: list[str]) -> dict[str, Space]:
    """The paper's protocol on a 1-2-5 grid around where the small network trains well, and a wide range around it.

    A mini-batch takes as many passes as there are groups: the wide space, which is the default, has few of them, so
    that a search ends within minutes.
    """
    return make_spaces(
        tasks,
        paper_lr=LogRange(5e-4, 5e-2),
        wide_lr=LogRange(1e-4, 1e-1),
        paper_counts=(2, 4, 8, 20, 40),
        wide_counts=(2, 4, 8),
        paper_strategies=(*PAPER_STRATEGIES, "mgda_ub", "mr"),
        paper_options={"gradnorm_alpha": 0.2, "mr_accumulate": True},
    )
