"""In how many ways tasks can be spread over groups. Loads no torch: reports ask too."""

import math


def count_groupings(tasks: int, groups: int) -> int:
    """Return how many different groupings a draw of ``groups`` groups chooses among, all equally likely.

    Sizes differ by at most one, and the order of groups does not matter: 4 tasks in 2 groups are 3 groupings. One group
    and one per task are 1.
    """
    size, larger = divmod(tasks, groups)
    orders: int = math.factorial(size + 1) ** larger * math.factorial(size) ** (groups - larger)
    return math.factorial(tasks) // (orders * math.factorial(larger) * math.factorial(groups - larger))
