"""From MLflow to a page: statistics, tables, figures, claims. Reads runs, trains nothing, needs no torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_mtl.reporting.write import Report


def report(*names: str, **options: Any) -> "Report":
    """Write the report of one or more searches; see :func:`tune_mtl.reporting.write.write_report`."""
    from tune_mtl.reporting.write import write_report

    return write_report(*names, **options)
