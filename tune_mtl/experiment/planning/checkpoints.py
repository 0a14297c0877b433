"""Where trials pause, each is put away and taken up again: whether that can be done is seen before anything starts."""

import tempfile
from pathlib import Path

from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.thawing import pauses
from tune_mtl.training import checkpoint
from tune_mtl.training.config import Config
from tune_mtl.training.trainer import Trainer


def require_checkpoints(plan: Plan) -> None:
    """Refuse to pause trials that cannot be saved and read again; what else fails, trials will say.

    Raises:
        UserError: for the first strategy whose trials cannot.
    """
    if not pauses(plan):
        return
    with isolated(), tempfile.TemporaryDirectory() as folder:
        for strategy in plan.space.strategies:
            try:
                config = plan.first_config(strategy)
                trainer = _begun(plan.problem, config)
            except Exception:
                continue
            path = Path(folder) / strategy
            try:
                checkpoint.save(path, trainer.state_dict())
                _begun(plan.problem, config).load_state_dict(checkpoint.load(path))
            except Exception as error:
                raise UserError(
                    f"scheduler='thaw' pauses trials, and one of strategy '{strategy}' cannot be taken up from its"
                    f" checkpoint ({type(error).__name__}: {' '.join(str(error).split())[:200]}): have its state hold"
                    " tensors and plain values alone, or use --scheduler asha."
                ) from error


def _begun(problem: Problem, config: Config) -> Trainer:
    trainer = Trainer(problem, config)
    trainer.close()
    return trainer
