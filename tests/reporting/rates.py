"""Made-up searches, told by the learning rates that were tried."""

from tests.reporting.stories import Story
from tune_mtl.results.search_data import SearchData

RANGE = {"low": 1e-4, "high": 1e-1, "log": True}
GRID = {"points": [1e-4, 1e-3, 1e-2, 1e-1]}


def searched(extent=RANGE, *strategies):
    return {strategy: {"lr": extent} for strategy in strategies or ("sus",)}


def told(values, *, strategy="sus", **story):
    """A search that has ended, its trials as ``{learning rate: value}``; no value: diverged."""
    story.setdefault("dimensions", searched())
    made = Story(**story)
    tell(made, strategy, values)
    return SearchData.read(made.end())


def tell(story, strategy, values, **more):
    for lr, value in values.items():
        outcome = "diverged" if value is None else "completed"
        story.trial(strategy, 1.0 if value is None else value, lr=lr, outcome=outcome, **more)
