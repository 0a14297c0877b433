"""The trunk's graph of gradients in stages: after each, all that goes further back goes through one place.

A stage can be gone through once per task before the next one begins, so that the gradients of its weights, a row for
each task, need not be held while other stages have theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from tune_mtl.core.torch_compat import gradient_size, sequence_number


@dataclass(frozen=True)
class Stage:
    """A piece of the graph.

    Attributes:
        weights: Where those stand, among the trunk's, whose gradients are made here.
        end: Where gradients leave it, all at one node; nothing if it is the last.
    """

    weights: tuple[int, ...]
    end: tuple[GradientEdge, ...]


def stages(outputs: Sequence[Tensor], weights: Sequence[nn.Parameter], *, join: bool = True) -> list[Stage]:
    """Return the graph from a trunk's ``outputs`` back to its ``weights``, in stages that need the least memory.

    What is held of a stage, for each task, are the gradients of its weights, those that came in, and those at its end.
    Weights that nothing leads to are in the last. Without ``join`` there are as many as possible.
    """
    found = _narrow_places(outputs, weights)
    reached = {place for stage in found for place in stage.weights}
    found[-1] = Stage((*found[-1].weights, *(set(range(len(weights))) - reached)), ())
    if not join:
        return found
    sizes = tuple(sum(weights[place].numel() for place in stage.weights) for stage in found)
    ends = tuple(sum(gradient_size(edge.node, edge.output_nr) for edge in stage.end) for stage in found)
    joined, start = [], 0
    for end in _cheapest(sizes, ends):
        merged = tuple(place for stage in found[start:end] for place in stage.weights)
        joined.append(Stage(merged, found[end - 1].end))
        start = end
    return joined


def _narrow_places(outputs: Sequence[Tensor], weights: Sequence[nn.Parameter]) -> list[Stage]:
    """Return the most stages there are, those without weights joined to the next.

    Nodes are met in the reverse order of their making, in which a backward pass goes through them: where only one is
    open, everything that is left is behind it. A weight that several stages use joins them.
    """
    places = {id(weight): place for place, weight in enumerate(weights)}
    open_nodes: list[tuple[int, int, Node]] = []
    reached: dict[Node, set[int]] = {}
    uses: list[tuple[int, int]] = []
    ends: list[tuple[GradientEdge, ...]] = []
    order = count()

    def meet(node: Node | None, output_nr: int) -> None:
        if node is None:
            return
        if not node.next_functions:
            place = places.get(id(getattr(node, "variable", None)))
            if place is not None:
                uses.append((len(ends), place))
            return
        if node not in reached:
            reached[node] = set()
            heappush(open_nodes, (-sequence_number(node), next(order), node))
        reached[node].add(output_nr)

    for output in outputs:
        edge = get_gradient_edge(output)
        meet(edge.node, edge.output_nr)
    while open_nodes:
        if len(open_nodes) == 1 and uses and uses[-1][0] == len(ends):
            node = open_nodes[0][2]
            ends.append(tuple(GradientEdge(node, output_nr) for output_nr in sorted(reached[node])))
        _, _, node = heappop(open_nodes)
        for child, output_nr in node.next_functions:
            meet(child, output_nr)
    return _without_ends_within_a_weight(uses, [*ends, ()])


def _without_ends_within_a_weight(
    uses: Sequence[tuple[int, int]], ends: Sequence[tuple[GradientEdge, ...]]
) -> list[Stage]:
    last = {place: stage for stage, place in uses}
    made, current, reach = [], dict[int, None](), 0
    for stage, end in enumerate(ends):
        own = [place for at, place in uses if at == stage]
        current |= dict.fromkeys(own)
        reach = max([reach, *(last[place] for place in own)])
        if reach <= stage:
            made.append(Stage(tuple(current), end))
            current = {}
    return made


@lru_cache(maxsize=64)
def _cheapest(sizes: tuple[int, ...], ends: tuple[int, ...]) -> tuple[int, ...]:
    """Return where stages end when they are joined so that the most that is held at once is least, and then the number.

    What no joining can spare, the largest stage, is nothing to save below.
    """
    least = max(sizes)
    best: list[tuple[int, int, tuple[int, ...]]] = [(least, 0, ())]
    for end in range(1, len(sizes) + 1):
        options = []
        for start in range(end):
            came_in = ends[start - 1] if start else 0
            held = came_in + sum(sizes[start:end]) + ends[end - 1]
            before, number, cuts = best[start]
            options.append((max(before, held), number + 1, (*cuts, end)))
        best.append(min(options))
    return best[-1][2]
