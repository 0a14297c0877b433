"""The reference losses of a search, kept with it: whatever becomes of code and caches, its trials compare."""

from pathlib import Path

from tune_mtl.core.files import read_json, write_json
from tune_mtl.core.problem import Problem
from tune_mtl.results.settings import Settings
from tune_mtl.tracking import names
from tune_mtl.training.references import cache
from tune_mtl.training.references.find import judged, judged_by_mean_loss, references_of, with_references


def judged_as_kept(problem: Problem, settings: Settings, folder: Path) -> Problem:
    """Return ``problem`` as the search in ``folder`` judges it; where there is none yet, as a new one will.

    A search from before reference losses were kept goes on by ``val/loss``, as it began.
    """
    kept = folder / names.REFERENCES_FILE
    if kept.exists():
        content = read_json(kept, "losses", "warning")
        if content["warning"] is not None:
            return judged_by_mean_loss(problem, content["warning"])
        return with_references(problem, content["losses"])
    if (folder / names.SETTINGS_FILE).exists() and problem.objective is None and not settings.judged_by:
        return judged_by_mean_loss(problem)
    return judged(problem, {**settings.fixed, **settings.judged_by})


def keep_references(problem: Problem, folder: Path) -> None:
    """Write down what the search in ``folder`` is judged with; the home's cache gets what this process has found."""
    write_json(folder / names.REFERENCES_FILE, {"losses": references_of(problem), "warning": problem.objective_warning})
    cache.save()
