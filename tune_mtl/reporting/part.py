"""A part of the page that has a heading, sentences, tables and figures of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tune_mtl.reporting.figures.style import Drawing
from tune_mtl.reporting.tables.table import Table


@dataclass(frozen=True)
class Part:
    """One such part.

    Attributes:
        title: The heading.
        sentences: What is said first, a paragraph each.
        tables: The tables that are shown.
        drawings: The figures that are shown.
        folded: Further tables and figures, which are there when somebody asks for them.
    """

    title: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()
    folded: Sequence[Table | Drawing] = field(default=())

    @property
    def every_table(self) -> list[Table]:
        """All tables, those that are folded away too."""
        return [*self.tables, *(one for one in self.folded if isinstance(one, Table))]

    @property
    def every_drawing(self) -> list[Drawing]:
        """All figures, those that are folded away too."""
        return [*self.drawings, *(one for one in self.folded if isinstance(one, Drawing))]
