"""What a search was asked for: one record, checked before anything starts, kept beside the search for its resume."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tune_mtl.core.options import Options
from tune_mtl.core.secrets import without_secrets

_Positive = Annotated[int, Field(ge=1)]


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

    def public(self) -> dict[str, Any]:
        """As JSON, to be kept and shown: addresses without the names and passwords that they may hold."""
        values = self.model_dump(mode="json")
        return {key: without_secrets(value) if isinstance(value, str) else value for key, value in values.items()}

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.algorithm == "grid" and self.balance == "none":
            raise ValueError("balance='none' needs an algorithm that chooses strategies: optuna or random")
        if self.warm_start is not None and self.algorithm != "optuna":
            raise ValueError(f"warm_start needs algorithm='optuna': {self.algorithm} learns nothing from other trials")
        if self.max_updates is not None and self.budget != "updates":
            raise ValueError(f"max_updates={self.max_updates} needs budget='updates'")
        if self.max_updates is not None and self.max_epochs is not None:
            raise ValueError(f"max_updates={self.max_updates} and max_epochs={self.max_epochs} exclude each other")
        if (self.max_seconds is not None) != (self.budget == "seconds"):
            raise ValueError("budget='seconds' and max_seconds, the training time of a trial, need each other")
        return self
