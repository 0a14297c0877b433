"""The tables of trade-offs: what each strategy does to all tasks together, and to each."""

from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.task_front import TaskFront
from tune_mtl.reporting.statistics.tradeoffs import TradeOffs
from tune_mtl.reporting.tables.number_format import number
from tune_mtl.reporting.tables.table import Cell, Table


def overview_table(results: Results, found: TradeOffs, front: TaskFront) -> Table:
    """Make the table of Delta-m, tasks that gain and lose, tasks won, and the front."""
    volume = front.hypervolume
    rows = []
    for name in results.runs:
        changes = found.changes.get(name, ())
        overall = found.delta_m.get(name)
        told = [Cell(len(found.tasks(name, verdict)) if changes else None) for verdict in ("gains", "loses")]
        interval = None if overall is None or overall.low != overall.low else f"{overall.low:.2f} to {overall.high:.2f}"
        rivals = front.beaten_by.get(name, ())
        place = f"beaten by {rivals[0]}" if rivals else "on it" if name in front.members else "not all tasks"
        rows.append(
            [
                Cell(name),
                *(
                    []
                    if found.reference is None
                    else [
                        Cell(None if overall is None else overall.difference, decimals=2),
                        Cell(interval),
                        *told,
                    ]
                ),
                Cell(len(found.best_on.get(name, ()))),
                Cell(place),
                *([] if volume is None else [Cell(100 * volume.contributions[name] if name in front.costs else None)]),
            ]
        )
    header = ["strategy"]
    if found.reference is not None:
        header += ["Δm % ↑", "interval", "tasks gain", "lose"]
    header += ["best on", "front"]
    header += [] if volume is None else ["adds to hypervolume, %"]
    return Table("trade-offs", _title(found), header, rows, _notes(results, found, front))


def changes_table(results: Results, found: TradeOffs) -> Table | None:
    """Make the table of every task's change, a row each; None where there is no reference."""
    if not found.changes:
        return None
    cells = {
        name: {one.task: Cell(one.change.difference, one.verdict != "open", 2) for one in changes}
        for name, changes in found.changes.items()
    }
    rows = [[Cell(task), *(cells[name].get(task, Cell(None)) for name in cells)] for task in found.order]
    header = ["task", *(f"{name} %" for name in cells)]
    notes = [f"Change against {found.reference} on {results.split}, in percent; positive is better. Bold: significant."]
    return Table("task-changes-table", "Every task's change", header, rows, notes)


def _title(found: TradeOffs) -> str:
    against = "" if found.reference is None else f", against {found.reference}"
    return f"What each strategy does to all tasks{against}"


def _notes(results: Results, found: TradeOffs, front: TaskFront) -> list[str]:
    notes = []
    if found.reference is not None:
        notes += [definition(results, found.reference), test_text(results)]
    notes.append("Best on: the number of tasks where its mean is the best; equal ones share.")
    notes.append(
        "Front: who is on the front over tasks has no other strategy that is as good on every task and better on one."
    )
    if front.hypervolume is not None:
        notes.append(
            "Hypervolume: the share of the box between a reference point and the best mean on every task that the"
            f" strategies cover together, here {number(100 * front.hypervolume.value)} %. The reference point is the"
            " worst mean on each task and a tenth of the way from best to worst beyond it; so it depends on who takes"
            " part."
        )
    return notes


def definition(results: Results, reference: str) -> str:
    """Return what Delta-m is."""
    unit = "tunings" if results.by_tuning else "seeds"
    return (
        f"Δm: the mean over tasks of the relative change against {reference}, in percent: of each metric of a task the"
        f" difference of the means over {unit} on {results.split} as a share of {reference}'s, with the sign that makes"
        " better positive; averaged within tasks, then over tasks."
    )


def test_text(results: Results) -> str:
    """Return how changes are tested."""
    if not results.by_tuning:
        return (
            "Tests: Welch's over seeds, of configs; Holm-corrected for the tasks of each strategy, Δm for the"
            " strategies, level 0.05."
        )
    often = "" if results.looks is None else " and for the looks"
    return (
        "Tests: of the changes paired by tuning, t-tests around zero; Holm-corrected for the tasks of each strategy, Δm"
        f" for the strategies{often}, level 0.05. So with a chance of at most 5 % any task of a strategy is marked"
        " although none differs."
    )
