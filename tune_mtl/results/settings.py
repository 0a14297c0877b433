"""What a search can be asked for: one record, the home of each option's type, default, rule and help text.

The flags of ``tune-mtl search``, the keywords of :func:`tune_mtl.search`, the command that repeats a search and the
file that is kept beside it for its resume all come from here. Knows neither torch, Ray nor MLflow.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PlainValidator, model_validator

from tune_mtl.core.options import Options
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.core.scalarisation import SCALARISATIONS
from tune_mtl.results.accepted import (
    CONTROLLED,
    MOST_REPLICATES,
    accepted_algorithm,
    accepted_controls,
    accepted_objective,
    accepted_replicates,
)
from tune_mtl.results.asked import Asked

FIRST_TRIALS = 4
"""A tuning begins with so many trials that depend on no result, if it has as many."""
FRESH_SEEDS_FROM = 1000
"""A replicate that trains with seed s is judged on the seeds s + 1000, s + 2000, ..., which no trial has seen."""

FORMAT, VERSION_OF_FORMAT_1 = 3, "0.1.0"
"""Of a search's folder: it counts up whenever what is saved there can no longer be read by an earlier version, or what
an earlier version saved no longer by this one. Files of format 1 name neither their format nor their version."""

PAPER: Mapping[str, Any] = MappingProxyType({"algorithm": "grid", "scheduler": "none"})
"""What ``space="paper"`` decides where nobody else does: the paper tried a whole grid, and stopped nobody early."""

_Count = Annotated[int, Field(ge=1)]
_Seed = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(gt=0)]


class Growth(Options):
    """Trials that were added to a search after it began.

    Attributes:
        replicates: The repetitions of the tuning that get them.
        strategies: Those that get them.
        trials: How many in all; on a grid, every config of ``strategies`` instead.
    """

    replicates: tuple[int, ...]
    strategies: tuple[str, ...]
    trials: Annotated[int, Field(ge=0)] = 0


class Settings(Options):
    """All options of ``tune_mtl.search``, and below them what a search itself records beside them.

    A field with :class:`Asked` is a flag of the command line and a keyword of ``search``. Defaults hold for a search
    that records nothing else; :func:`implied` says what follows from other options.
    """

    model_config = ConfigDict(defer_build=True)  # a help text needs no validator

    problem: Annotated[str, Asked("A built-in problem, or your own as package.module:attribute.", repeated=False)]
    name: Annotated[
        str, Asked("The name of the search, which no other has; default: the problem's and the time.", repeated=False)
    ]
    space: Annotated[
        str,
        Asked(
            "The search space: wide (default), paper (the paper's protocol: a grid on three seeds, nobody stopped"
            " early), one of the problem's own, or a file, as tune-mtl spaces prints it.",
            metavar="NAME|FILE",
        ),
    ] = "wide"
    strategies: Annotated[
        tuple[str, ...] | None,
        Asked(
            "Which strategies are compared; your own as package.module:Class, found from the current directory; all:"
            " every one that is installed and can train this network, with a line for each other. Default: those of the"
            " space.",
            metavar="A,B",
        ),
    ] = None
    lr: Annotated[
        str | None,
        Asked(
            "Learning rates instead of the space's: a range 1e-5:1e-2, a list 1e-3,1e-2 or one value.",
            metavar="LOW:HIGH",
        ),
    ] = None
    groups: Annotated[
        str | None,
        Asked("Group counts instead of the space's, for strategies with groups: 2,4 or 1:4.", metavar="A,B"),
    ] = None
    fixed: Annotated[
        dict[str, Any],
        Asked(
            "Config values and options that every trial has.",
            metavar="KEY=VALUE",
            flag="--set",
        ),
    ] = Field(default_factory=dict)
    optimizer: Annotated[
        str | None,
        Asked(
            "The optimizer of every trial; your own as package.module:Class, found from the current directory. Default:"
            " the problem's.",
            metavar="NAME",
        ),
    ] = None
    schedule: Annotated[
        str | None,
        Asked(
            "The learning rate over mini-batches; your own as package.module:function, found from the current"
            " directory. Default: the problem's.",
            metavar="NAME",
        ),
    ] = None
    vary: Annotated[
        dict[str, Any],
        Asked(
            "Further dimensions of the search, or other values than the space's: any config value or option, as values"
            " 32,64,128, a range 4:16 (whole numbers), 0.1:0.9, or 1e-6:1e-2:log.",
            metavar="KEY=VALUES",
            flag="--search",
        ),
    ] = Field(default_factory=dict)
    algorithm: Annotated[
        str,
        PlainValidator(accepted_algorithm),
        Asked(
            "Who chooses configs: optuna (default), random, grid, which tries every one, or a sampler of Optuna's, your"
            " own too, as package.module:Class; see tune-mtl algorithms.",
            metavar="optuna|random|grid|MODULE:NAME",
        ),
    ] = "optuna"
    scheduler: Annotated[
        Literal["asha", "thaw", "none"],
        Asked(
            "asha (default) stops hopeless trials early; thaw pauses trials, and gives the next epochs to the one that"
            " promises most; none stops nobody."
        ),
    ] = "asha"
    judge: Annotated[
        Literal["last", "best", "smoothed"] | None,
        Asked(
            "The value by which an epoch is judged, by early stopping and by who chooses configs: last, that of the"
            " epoch; best, the best so far; smoothed, the mean of the last three evaluations. Default: early stopping"
            " sees the last one, who chooses configs the best so far."
        ),
    ] = None
    balance: Annotated[
        Literal["strategy", "none"],
        Asked(
            "strategy (default): each strategy has as many trials as the others, and its own study and rungs; none:"
            " strategy is one more dimension of the search, and the comparison is not fair."
        ),
    ] = "strategy"
    samples: Annotated[
        _Count | None,
        Asked(
            "How many trials in all; default: 4 for every strategy and replicate, 8 with one replicate or where trials"
            " pause, or the grid."
        ),
    ] = None
    replicates: Annotated[
        int | Literal["auto"],
        PlainValidator(accepted_replicates),
        Asked(
            "How often each strategy is tuned, with other draws and another training seed each time: only repeated"
            " tunings tell strategies apart. auto: as often as it takes. Default: 8, or 5 where trials pause; with"
            " fewer samples, as many as get 4 trials each, or 8 where they pause, or 1; a grid is tuned on each seed.",
            metavar="NUMBER|auto",
        ),
    ] = 1
    max_replicates: Annotated[
        Annotated[int, Field(ge=2, le=MOST_REPLICATES)] | None,
        Asked("How many replicates at most, where they are auto; default: 16."),
    ] = None
    max_epochs: Annotated[_Count | None, Asked("Epochs of a trial; default: the problem's.")] = None
    budget: Annotated[
        Literal["epochs", "updates", "seconds"],
        Asked(
            "What a trial's length is counted in, by early stopping too: epochs (default); updates, of which every"
            " strategy may take as many as the one that takes most in its epochs; seconds."
        ),
    ] = "epochs"
    max_updates: Annotated[
        _Count | None, Asked("Updates of a trial, where the budget counts them; default: those of the epochs.")
    ] = None
    max_seconds: Annotated[
        _Amount | None, Asked("Training time of a trial in seconds, where the budget counts them.")
    ] = None
    seed: Annotated[_Seed, Asked("The seed of trials and searcher; replicate i trains with seed + i. Default: 0.")] = 0
    seeds: Annotated[
        tuple[_Seed, ...] | None,
        Asked("The seeds of a grid, which tries every config on each; default: the space's.", metavar="A,B"),
    ] = None
    metric: Annotated[str | None, Asked("The objective; default: the problem's.", metavar="NAME[:min|max]")] = None
    objective: Annotated[
        str,
        PlainValidator(accepted_objective),
        Asked(
            "How all tasks become the one number that trials are judged by: mean (default), the problem's objective or"
            " --metric; worst task; weighted mean, with --task-weights; delta-m, with --task-reference.",
            metavar="mean|worst|weighted|delta-m",
        ),
    ] = "mean"
    task_weights: Annotated[
        str | None,
        Asked("Weights of tasks for --objective weighted; tasks not named have 1.", metavar="TASK=WEIGHT,..."),
    ] = None
    task_reference: Annotated[
        str | None,
        Asked(
            "What --objective delta-m compares with: a value for every task, of a metric or, by the task's name, of its"
            " loss; or the name of an earlier search, whose stl, else sus, was measured (SEARCH:STRATEGY: another).",
            metavar="TASK=VALUE,...|SEARCH",
        ),
    ] = None
    time_budget: Annotated[
        _Amount | None,
        Asked("Seconds after which trials end at their next evaluation, and no other starts.", metavar="SECONDS"),
    ] = None
    concurrency: Annotated[_Count | None, Asked("How many trials run at once; default: as many as fit.")] = None
    cpus_per_trial: Annotated[_Amount, Asked("CPUs of a trial, and as many threads; default: 1.")] = 1
    gpus_per_trial: Annotated[
        Annotated[float, Field(ge=0)], Asked("GPUs of a trial; fractions share one. Default: 0.")
    ] = 0
    address: Annotated[
        str | None,
        Asked("A Ray cluster's address; default: a local one, which starts and stops with the search.", repeated=False),
    ] = None
    storage: Annotated[
        str | None, Asked("A folder that all nodes share; default: ray in the home.", repeated=False)
    ] = None
    tracking_uri: Annotated[
        str | None,
        Asked("The MLflow store; default: MLFLOW_TRACKING_URI, else mlflow.db in the home, ./runs.", repeated=False),
    ] = None
    warm_start: Annotated[
        str | None,
        Asked("An earlier search on the same problem, from whose trials the searcher learns first.", metavar="NAME"),
    ] = None
    confirm: Annotated[
        int,
        Field(ge=0, le=1000),
        Asked(
            "On how many fresh seeds the best config of each tuning is trained again, in full, and tested; default: 1"
            " where tunings are repeated, else 0.",
            metavar="SEEDS",
        ),
    ] = 0
    controls: Annotated[
        int | Literal["auto", "all"],
        PlainValidator(accepted_controls),
        Asked(
            "In how many of the tunings confirmation trains controls too: choices with as many updates as the one that"
            " takes most, and all strategies at one learning rate. auto (default): in 3, those that can change what the"
            " report says; all: in every one.",
            metavar="TUNINGS|auto|all",
        ),
    ] = CONTROLLED
    diagnose: Annotated[
        bool, Asked("Whether trials look at conflicts of the tasks' gradients; changes no number; default: no.")
    ] = False
    diagnose_every: Annotated[
        _Count | None, Asked("Epochs between two such looks, which it asks for; default: 1, of forty tasks 3.")
    ] = None
    diagnose_samples: Annotated[_Count | None, Asked("Validation samples of a look; default: few.")] = None
    report: Annotated[bool, Asked("Whether the page is written at the end; default: yes.", repeated=False)] = True
    export: Annotated[
        bool,
        Asked(
            "Whether the winner's run gets its MLflow model at the end; default: yes, unless the environment variable"
            " TUNE_MTL_EXPORT is 0.",
            repeated=False,
        ),
    ] = True

    space_content: dict[str, Any] | None = None
    """The space, where it came from a file or was given as an object: as `search_spaces.files` reads it."""
    contestants: dict[str, str] = Field(default_factory=dict)
    """Where the strategies that are not built in are found, ``package.module:Class``, by name."""
    task_reference_from: str | None = None
    """Where the reference values were measured: the search and its strategy, in words."""
    grown: tuple[Growth, ...] = ()
    version: str = VERSION_OF_FORMAT_1
    format: int = 1

    @classmethod
    def asked(cls) -> dict[str, Asked]:
        """Return what a user can ask for, and how."""
        fields = cls.model_fields.items()
        return {name: mark for name, info in fields for mark in info.metadata if isinstance(mark, Asked)}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the defaults of the fields that have one."""
        return {
            name: info.get_default(call_default_factory=True)
            for name, info in cls.model_fields.items()
            if not info.is_required()
        }

    @property
    def decided(self) -> dict[str, Any]:
        """Return the config values that every trial has: ``fixed``, the optimizer and the schedule."""
        own = {"optimizer": self.optimizer, "schedule": self.schedule}
        return {**self.fixed, **{key: value for key, value in own.items() if value is not None}}

    @property
    def judged_by(self) -> dict[str, str]:
        """Return the config values that say what trials are judged by, where the problem does not."""
        metric = SCALARISATIONS.get(self.objective, self.metric)
        own = {"metric": metric, "task_weights": self.task_weights, "task_reference": self.task_reference}
        return {key: value for key, value in own.items() if value is not None}

    def public(self) -> dict[str, Any]:
        """Return the settings as JSON, to be kept and shown: without what passwords addresses may hold."""
        values = self.model_dump(mode="json")
        return {key: without_secrets(value) if isinstance(value, str) else value for key, value in values.items()}

    def _check_seeds(self, seeds: tuple[int, ...]) -> None:
        if self.algorithm != "grid":
            raise ValueError(f"seeds={seeds} needs algorithm='grid': others train replicate i with seed + i")
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds={seeds} must differ from each other")
        if self.replicates not in ("auto", len(seeds)):
            raise ValueError(f"replicates={self.replicates} and {len(seeds)} seeds contradict each other")

    def _check_thaw(self) -> None:
        if self.algorithm == "grid":
            raise ValueError("scheduler='thaw' chooses who trains on, a grid trains every one: use scheduler='none'")
        if self.budget == "seconds":
            raise ValueError("scheduler='thaw' needs budget='epochs' or 'updates': seconds differ each time")
        if self.warm_start is not None:
            raise ValueError("scheduler='thaw' cannot have a warm_start: it learns from learning curves of its own")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        for key, value in (("optimizer", self.optimizer), ("schedule", self.schedule)):
            if value is not None and self.fixed.get(key, value) != value:
                raise ValueError(
                    f"{key}={value} and --set {key}={self.fixed[key]} contradict each other: leave one of them out"
                )
        if self.objective != "mean" and self.metric is not None:
            raise ValueError(f"objective={self.objective} and metric={self.metric} exclude each other")
        for key, owner in (("task_weights", "weighted"), ("task_reference", "delta-m")):
            if (getattr(self, key) is not None) != (self.objective == owner):
                raise ValueError(f"objective='{owner}' and {key} need each other")
        if self.scheduler == "thaw":
            self._check_thaw()
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
        if self.judge is not None and self.scheduler == "none" and self.algorithm in ("random", "grid"):
            raise ValueError(
                f"judge={self.judge} has no use with scheduler='none' and algorithm='{self.algorithm}': nobody looks at"
                " epochs. Leave it out"
            )
        if self.confirm >= FRESH_SEEDS_FROM:
            raise ValueError(f"confirm={self.confirm} must be less than {FRESH_SEEDS_FROM}")
        if self.warm_start is not None and self.algorithm in ("random", "grid"):
            raise ValueError(f"warm_start needs algorithm='optuna': {self.algorithm} learns nothing from other trials")
        if self.max_updates is not None and self.budget != "updates":
            raise ValueError(f"max_updates={self.max_updates} needs budget='updates'")
        if self.max_updates is not None and self.max_epochs is not None:
            raise ValueError(f"max_updates={self.max_updates} and max_epochs={self.max_epochs} exclude each other")
        if (self.max_seconds is not None) != (self.budget == "seconds"):
            raise ValueError("budget='seconds' and max_seconds, the training time of a trial, need each other")
        return self


def implied(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the ``given`` options decide of those that are not given; ``replicates`` have to be among them.

    The paper's protocol has its own algorithm and scheduler; what is tuned repeatedly is trained again on fresh seeds.
    Searches of earlier versions had every control.
    """
    found = dict(PAPER) if given.get("space") == "paper" else {}
    found["controls"] = "auto"
    if given.get("replicates", 1) != 1:
        found["confirm"] = 1
    return {key: value for key, value in found.items() if key not in given}
