"""The keywords of a search, for editors and type checkers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict


class SearchOptions(TypedDict, total=False):
    """The keywords of :func:`tune_mtl.search` with their types, as editors and type checkers read them.

    What each means, its default and its rule: ``Settings`` in `tune_mtl.results.settings`. None is the default,
    whatever that is.
    """

    name: str | None
    space: str | object | None
    strategies: Sequence[str | type[Any]] | str | None
    lr: str | None
    groups: str | None
    fixed: Mapping[str, Any] | None
    optimizer: str | type[Any] | Callable[..., Any] | None
    schedule: str | Callable[..., Any] | None
    vary: Mapping[str, Any] | None
    algorithm: str | Callable[..., Any] | None
    scheduler: Literal["asha", "thaw", "none"] | None
    judge: Literal["last", "best", "smoothed"] | None
    balance: Literal["strategy", "none"] | None
    samples: int | None
    replicates: int | Literal["auto"] | None
    max_replicates: int | None
    max_epochs: int | None
    budget: Literal["epochs", "updates", "seconds"] | None
    max_updates: int | None
    max_seconds: float | None
    seed: int | None
    seeds: Sequence[int] | None
    metric: str | None
    objective: str | None
    task_weights: Mapping[str, float] | str | None
    task_reference: Mapping[str, float] | str | None
    time_budget: float | None
    concurrency: int | None
    cpus_per_trial: float | None
    gpus_per_trial: float | None
    address: str | None
    storage: str | None
    tracking_uri: str | None
    warm_start: str | None
    confirm: int | None
    controls: int | Literal["auto", "all"] | None
    diagnose: bool | None
    diagnose_every: int | None
    diagnose_samples: int | None
    report: bool | None
    export: bool | None
