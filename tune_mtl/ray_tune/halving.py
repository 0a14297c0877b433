"""Who is stopped early: Ray's asynchronous successive halving, with rungs of their own for each strategy."""

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from tune_mtl.core.objective import Objective
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.verdict import GO_ON, Verdict

REDUCTION = 3
"""One of so many trials goes on at each rung."""


class FairHalving:
    """Judges each trial by its strategy's asynchronous successive halving.

    Replicates share the rungs of their strategy: with few trials each, rungs of their own would stop hardly anyone.
    Rungs say how long a trial may train; who wins a tuning is decided among its own trials.

    Args:
        strategies: Who gets rungs; trials of one strategy compete among themselves only. None: nobody is stopped.
        objective: What is compared.
        counts: What of a result the rungs count: ``epoch``, ``updates`` or ``seconds``.
        judged: Under which key of a result the value is that is compared; default: the objective's own, at that epoch.
        length, grace: Of them: a whole trial, and what every trial gets before it can be stopped.
        balanced: Whether each strategy has its own rungs (else all share one set).
    """

    def __init__(
        self,
        strategies: tuple[str, ...] | None,
        objective: Objective,
        *,
        counts: str = "epoch",
        judged: str | None = None,
        length: float,
        grace: float,
        balanced: bool,
    ) -> None:
        self._balanced, self._counts = balanced, counts
        keys = () if strategies is None else strategies if balanced else ("",)
        self.rungs = {
            key: ASHAScheduler(
                time_attr=counts,
                metric=judged or objective.metric,
                mode=objective.mode,
                max_t=length,  # type: ignore[arg-type]  # seconds need not be whole
                grace_period=grace,  # type: ignore[arg-type]
                reduction_factor=REDUCTION,
            )
            for key in keys
        }

    @classmethod
    def nobody(cls, objective: Objective) -> "FairHalving":
        """Return a judge who stops nobody."""
        return cls(None, objective, length=1, grace=1, balanced=False)

    def _of(self, trial: Trial) -> ASHAScheduler | None:
        """Return the rungs in which a trial competes."""
        return self.rungs.get(trial.config["strategy"] if self._balanced else "")

    def enter(self, trial: Trial) -> None:
        """Have a trial compete; after a resume its rungs may know it already."""
        rungs = self._of(trial)
        if rungs is not None and not compat.knows_trial(rungs, trial):
            rungs.on_trial_add(None, trial)  # type: ignore[arg-type]  # Ray's own does not use its controller

    def judge(self, trial: Trial, result: dict[str, Any]) -> Verdict:
        """Stop what is not in the best part of its rung."""
        rungs = self._of(trial)
        if rungs is None or rungs.on_trial_result(None, trial, result) != TrialScheduler.STOP:  # type: ignore[arg-type]
            return GO_ON
        rung = compat.reached_rung(rungs, trial)
        place = "" if rung is None else f" at {self._counts} {rung:g}"
        return Verdict.stop(f"not among the best of {REDUCTION} trials of its strategy{place}")

    def leave(self, trial: Trial, result: dict[str, Any] | None = None) -> None:
        """Let go of a trial that has ended; its last ``result``, if it gave one, counts at its rung."""
        rungs = self._of(trial)
        if rungs is None or not compat.knows_trial(rungs, trial):
            return
        if result is None:
            rungs.on_trial_remove(None, trial)  # type: ignore[arg-type]
        else:
            rungs.on_trial_complete(None, trial, result)  # type: ignore[arg-type]
            compat.forget_trial(rungs, trial)

    def state(self) -> dict[str, Any]:
        """Return all rungs as plain values."""
        return {key: compat.rungs_of(rungs) for key, rungs in self.rungs.items()}

    def take_up(self, state: dict[str, Any]) -> None:
        """Have the rungs hold what a saved state says."""
        for key, saved in state.items():
            compat.put_rungs_back(self.rungs[key], saved)
