"""What a search was asked for: one record, checked before anything starts, kept beside the search for its resume."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, model_validator

from tune_mtl.core.options import Options
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.ray_tune.turns import FRESH_SEEDS_FROM, Growth

_Positive = Annotated[int, Field(ge=1)]
_MOST_REPLICATES = 100


def _counted(value: object) -> int | Literal["auto"]:
    """Return a number of replicates: one sentence says what it may be, whatever was given instead."""
    if value == "auto":
        return "auto"
    if isinstance(value, int) and 1 <= value <= _MOST_REPLICATES:
        return value
    raise ValueError(f"must be 'auto' or a number from 1 to {_MOST_REPLICATES}")


class Settings(Options):
    """All options of ``tune_mtl.search``; see there."""

    problem: str
    name: str
    space: str = "wide"
    strategies: tuple[str, ...] | None = None
    lr: str | None = None
    groups: str | None = None
    fixed: dict[str, Any] = Field(default_factory=dict)
    algorithm: Literal["optuna", "random", "grid"] = "optuna"
    scheduler: Literal["asha", "none"] = "asha"
    balance: Literal["strategy", "none"] = "strategy"
    samples: _Positive | None = None
    replicates: Annotated[int | Literal["auto"], PlainValidator(_counted)] = 1
    max_replicates: Annotated[int, Field(ge=2, le=_MOST_REPLICATES)] | None = None
    grown: tuple[Growth, ...] = ()
    max_epochs: _Positive | None = None
    budget: Literal["epochs", "updates", "seconds"] = "epochs"
    max_updates: _Positive | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    seeds: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    metric: str | None = None
    time_budget: Annotated[float, Field(gt=0)] | None = None
    concurrency: _Positive | None = None
    cpus_per_trial: Annotated[float, Field(gt=0)] = 1
    gpus_per_trial: Annotated[float, Field(ge=0)] = 0
    address: str | None = None
    storage: str | None = None
    tracking_uri: str | None = None
    warm_start: str | None = None
    confirm: Annotated[int, Field(ge=0, le=1000)] = 0
    report: bool = True
    export: bool = True

    def public(self) -> dict[str, Any]:
        """As JSON, to be kept and shown: addresses without the names and passwords that they may hold."""
        values = self.model_dump(mode="json")
        return {key: without_secrets(value) if isinstance(value, str) else value for key, value in values.items()}

    def _check_seeds(self, seeds: tuple[int, ...]) -> None:
        if self.algorithm != "grid":
            raise ValueError(f"seeds={seeds} needs algorithm='grid': others train replicate i with seed + i")
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds={seeds} must differ from each other")
        if self.replicates not in ("auto", len(seeds)):
            raise ValueError(f"replicates={self.replicates} and {len(seeds)} seeds contradict each other")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.algorithm == "grid" and self.balance == "none":
            raise ValueError("balance='none' needs an algorithm that chooses strategies: optuna or random")
        if self.replicates != 1 and self.balance == "none":
            raise ValueError(f"replicates={self.replicates} needs balance='strategy': strategies are compared by them")
        if self.replicates != 1 and self.warm_start is not None:
            raise ValueError(
                f"replicates={self.replicates} cannot have a warm_start: tunings that share what they know are not"
                " independent. Leave one of them out"
            )
        if self.max_replicates is not None and self.replicates != "auto":
            raise ValueError(f"max_replicates={self.max_replicates} needs replicates='auto'")
        if self.seeds is not None and "replicates" in self.model_fields_set:  # earlier versions have none
            self._check_seeds(self.seeds)
        if self.confirm >= FRESH_SEEDS_FROM:
            raise ValueError(f"confirm={self.confirm} must be less than {FRESH_SEEDS_FROM}")
        if self.warm_start is not None and self.algorithm != "optuna":
            raise ValueError(f"warm_start needs algorithm='optuna': {self.algorithm} learns nothing from other trials")
        if self.max_updates is not None and self.budget != "updates":
            raise ValueError(f"max_updates={self.max_updates} needs budget='updates'")
        if self.max_updates is not None and self.max_epochs is not None:
            raise ValueError(f"max_updates={self.max_updates} and max_epochs={self.max_epochs} exclude each other")
        if (self.max_seconds is not None) != (self.budget == "seconds"):
            raise ValueError("budget='seconds' and max_seconds, the training time of a trial, need each other")
        return self
