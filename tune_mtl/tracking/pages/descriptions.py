"""The description of a search's run in MLflow: the answer in words, where to look, how to read it."""

import json
from collections.abc import Mapping, Sequence

from mlflow.entities import Run

from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import Outcome
from tune_mtl.tracking import names
from tune_mtl.tracking.pages import views

_LONGEST = 4000
"""Characters of the answer; MLflow refuses a tag of more than 8000."""


def search_note(
    search: str,
    experiment: str,
    run_id: str,
    objective: Objective,
    *,
    answer: Sequence[str],
    winners: Sequence[str] = (),
    report: str | None = None,
) -> str:
    """Return the description of a search's run, in Markdown.

    Args:
        search: Its name.
        experiment: The id of its experiment.
        run_id: Of the run that is described.
        objective: What trials are judged by.
        answer: What is known; the first sentence stands out.
        winners: The run of each strategy's best trial.
        report: Where the page lies.
    """
    table = views.trials_address(experiment, search)
    look = [f"[trials, best first]({table})", f"[charts]({views.trials_address(experiment, search, charts=True)})"]
    if winners:
        look.append(f"[the best trial of each strategy, side by side]({views.compare_address(experiment, winners)})")
    look.append(f"[how the search went]({views.run_address(experiment, run_id, 'model-metrics')})")
    first, *others = (line[:_LONGEST] for line in answer)
    while sum(map(len, others)) > _LONGEST:
        others.pop()
    lines = [f"**{first}**", "Look at: " + " · ".join(look) + "."]
    if report is not None:
        page = views.run_address(experiment, run_id, "artifacts/report/index.html")
        lines.append(f"[The whole report]({page}) is also the file `{report}`.")
    lines += others
    less = "less" if objective.mode == "min" else "more"
    lines.append(
        f"How to read: trials are judged by `{objective.metric}` ({less} is better) on validation data;"
        f" `{names.best_metric(objective.metric)}` is its value at a trial's best epoch. `stopped_early` trials were"
        " given up, or left paused, for better ones, `diverged` ones had a loss that was no number, `failed` ones an"
        " error. Here, `best_so_far/...` is the best value of each strategy over all epochs spent."
    )
    return "\n\n".join(lines) + "\n"


_ENDS: dict[str, str] = {
    Outcome.COMPLETED: "Completed",
    Outcome.STOPPED_EARLY: "Stopped early, for others that did better",
    Outcome.DIVERGED: "Diverged: a loss was no finite number",
    Outcome.FAILED: "Failed with an error",
}


def trial_note(run: Run, outcome: str, metrics: Mapping[str, float], reason: str | None) -> str:
    """Return the description of a trial's run, in Markdown: how it ended, how good it was, what to look at."""
    tags = run.data.tags
    search, experiment = tags[names.SEARCH], run.info.experiment_id
    asked = json.loads(tags[names.CONFIG])
    lines = [f"**{_ENDS.get(outcome, outcome)}.**" + (f" `{reason}`" if reason else "")]
    if "metric" in asked:
        objective = Objective.parse(asked["metric"])
        value, epoch = metrics.get(names.best_metric(objective.metric)), metrics.get("best/epoch")
        if value is not None and epoch is not None:
            lines.append(f"Best {objective.metric}: {value:.4g}, at epoch {epoch:.0f}.")
    table, charts = views.trials_address(experiment, search), views.trials_address(experiment, search, charts=True)
    curves = views.run_address(experiment, run.info.run_id, "model-metrics")
    links = [f"[its curves]({curves})", f"[all trials, best first]({table})", f"[their charts]({charts})"]
    if tags.get(names.PARENT):
        links.append(f"[search {search}]({views.run_address(experiment, tags[names.PARENT])})")
    return "\n\n".join([*lines, "Look at: " + " · ".join(links) + "."]) + "\n"
