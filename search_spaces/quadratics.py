"""`quadratics`: the theorem's step needs no learning rate; its factor is searched around 1."""

from search_spaces.default import DEFAULT_STRATEGIES, make_spaces
from search_spaces.space import LogRange, Space


def spaces(tasks: list[str]) -> dict[str, Space]:
    """Factors of the theorem's step, from far below to above what it allows."""
    return make_spaces(
        tasks, paper_lr=LogRange(0.1, 1.0), wide_lr=LogRange(0.01, 2.0), paper_strategies=DEFAULT_STRATEGIES
    )
