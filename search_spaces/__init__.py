"""What a search may choose: one declarative space per problem, compiled to a grid or to Optuna suggestions.

`dimension` and `space` hold the vocabulary, `texts` and `files` say how people write it; `default` builds a space for
any problem from the strategy registry, and each built-in problem has a module of its name with its `paper` and `wide`
spaces.
"""

from search_spaces.default import find_space, space_names
from search_spaces.space import Choice, Dimension, IntRange, LogRange, Range, Space

__all__ = ["Choice", "Dimension", "IntRange", "LogRange", "Range", "Space", "find_space", "space_names"]
