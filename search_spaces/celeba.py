"""`celeba`: the learning rates, group counts, strategies and options of the paper."""

from search_spaces.default import PAPER_STRATEGIES, make_spaces
from search_spaces.space import LogRange, Space


def spaces(tasks: list[str]) -> dict[str, Space]:
    """The paper's protocol on a 1-2-5 grid of learning rates, which it does not print; and a wide range around it."""
    return make_spaces(
        tasks,
        paper_lr=LogRange(5e-5, 5e-3),
        wide_lr=LogRange(1e-5, 2e-2),
        paper_counts=(2, 4, 8, 20, 40),
        paper_strategies=(*PAPER_STRATEGIES, "mgda_ub", "mr"),
        paper_options={"gradnorm_alpha": 0.2, "mr_updates_end": 3000, "mr_accumulate": True},
    )
