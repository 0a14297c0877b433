"""One trial in this process: train, keep what is worth keeping, come back after a kill."""

import fcntl
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import BEST_WEIGHTS, read_json, write_json
from tune_mtl.core.html import paragraph, table
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.outcome import Outcome
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.problems.registry import load_problem
from tune_mtl.strategies.registry import strategy_class
from tune_mtl.training import checkpoint
from tune_mtl.training.config import Config, check_same_config, check_schedule, mini_batches, resolve
from tune_mtl.training.diagnosis.asked import usual_pace
from tune_mtl.training.examination.examine import require_ready
from tune_mtl.training.memory import explained, is_out_of_memory
from tune_mtl.training.references.find import judged
from tune_mtl.training.saving import SavingPace
from tune_mtl.training.trainer import Diverged, Record, Trainer

CONFIG, RESULT, CHECKPOINT = "config.json", "result.json", "checkpoint.pt"


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """How a trial ended.

    Attributes:
        config: Flat, complete: the same config gives the same numbers.
        outcome: ``completed`` or ``diverged``.
        metrics: Said once: ``best/...``, ``path/best_...``, ``test/...``, ``updates``, ``seconds``.
        history: One record per evaluation.
        checkpoint: The best weights' file, or None if nothing was written or no epoch was evaluated.
        reason: Of a diverged trial, what left the finite numbers first, and when; else None.
        diagnosis: The cosines between the tasks' gradients by epoch, where the trial was diagnosed: ``{"tasks": [...],
            "cosines": {"1": [[...], ...]}}``; None for a pair that is not defined.
    """

    config: dict[str, Any]
    outcome: str
    metrics: Record
    history: list[Record]
    checkpoint: Path | None
    problem: Problem
    weights: dict[str, torch.Tensor] | None
    reason: str | None = None
    diagnosis: dict[str, Any] | None = None

    def load_model(self) -> MultiTaskModel:
        """Return the network with its best weights, on the CPU, ready to predict.

        Raises:
            UserError: if the trial ended before its first evaluation.
        """
        weights = self.weights
        if weights is None and self.checkpoint is not None:
            weights = checkpoint.load(self.checkpoint)["weights"]
        if weights is None:
            raise UserError(f"this trial {self.outcome} before its first evaluation: there are no best weights.")
        return build_model(self.problem, resolve(self.problem, self.config, self.config["problem"]), weights)

    def _repr_html_(self) -> str:
        headline = f"{self.config['strategy']} at lr {self.config['lr']:g} on {self.config['problem']}: {self.outcome}"
        return paragraph(headline, bold=True) + table(("metric", "value"), self.metrics.items())


def build_model(problem: Problem, config: Config, weights: Mapping[str, torch.Tensor]) -> MultiTaskModel:
    """Return the network that ``config`` trains, with ``weights``, in evaluation mode on the CPU."""
    with isolated():
        fresh = problem.model(**config.model_options)
    model = strategy_class(config.strategy).own_model(fresh, [task.name for task in problem.tasks])
    model.load_state_dict({name: tensor.cpu() for name, tensor in weights.items()})
    return model.eval()


def train(
    problem: str | Problem,
    config: Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    diagnose: bool = False,
    on_evaluation: Callable[[Record, Config], None] | None = None,
) -> TrialResult:
    """Train one config to the end in this process.

    Args:
        problem: A built-in name, ``package.module:attribute``, or a :class:`Problem`.
        config: Flat values; what is missing comes from the problem's defaults.
        out: A folder for ``result.json``, ``best.pt`` (weights) and ``checkpoint.pt`` (everything, for ``resume``).
            None writes nothing.
        resume: Go on with what ``out`` holds: exactly as if it had never been interrupted. A finished run is returned
            as it is, an empty folder starts from the beginning.
        diagnose: Look at the tasks' gradients: what the config value ``diagnose_every`` asks for, the more tasks the
            rarer unless it says otherwise.
        on_evaluation: Called with each new record.

    Raises:
        UserError: for anything in the input that cannot be, before anything is written; for a problem that cannot be
            trained, see :func:`tune_mtl.check_problem`.
    """
    loaded = load_problem(problem, config)
    if diagnose and config.get("diagnose_every") is None:
        config = {**config, "diagnose_every": usual_pace(len(loaded.tasks))}
    name = problem if isinstance(problem, str) else None
    resolve(loaded, config, name)  # what cannot be is said before anything is computed
    if not resume:
        require_ready(loaded, config, name)
    loaded = judged(loaded, config)
    resolved = resolve(loaded, config, name)
    if resolved.schedule_from is not None:
        check_schedule(resolved, mini_batches(loaded, resolved))
    with ExitStack() as stack:
        stack.enter_context(isolated())
        stack.enter_context(torch_settings(deterministic=resolved.deterministic))
        if out is None:
            if resume:
                raise UserError("resume needs out, the folder of the run to go on with.")
            return _run(Trainer(loaded, resolved), None, on_evaluation)
        folder = RunFolder(Path(out), resolved)
        folder.check(resume=resume)
        finished = folder.result(loaded)
        if finished is not None:
            return finished
        trainer = Trainer(loaded, resolved)
        with folder.held():
            folder.check(resume=resume)
            folder.go_on(trainer)
            return _run(trainer, folder, on_evaluation)


def _run(
    trainer: Trainer, folder: "RunFolder | None", on_evaluation: Callable[[Record, Config], None] | None
) -> TrialResult:
    config = trainer.config
    trainer.check_batches("test")  # what is wrong with it is said before training, not after
    save = None if folder is None else folder.save_if_due(trainer)
    try:
        while not trainer.finished and trainer.diverged is None:
            record = trainer.run_period(save)
            if save is not None:
                save()
            if on_evaluation is not None:
                on_evaluation(record, config)
    except Diverged:
        pass
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(explained(trainer, error)) from error
    outcome = str(Outcome.COMPLETED if trainer.diverged is None else Outcome.DIVERGED)
    if folder is not None:
        folder.save(trainer)
    metrics = trainer.summary() | trainer.test_best()
    result = TrialResult(
        config=config.as_dict(),
        outcome=outcome,
        metrics=metrics,
        history=trainer.history,
        checkpoint=folder.path / BEST_WEIGHTS if folder is not None and trainer.best is not None else None,
        problem=trainer.problem,
        weights=trainer.best.weights if trainer.best is not None else None,
        reason=trainer.diverged,
        diagnosis=None if trainer.diagnosis is None else trainer.diagnosis.told(),
    )
    if folder is not None:
        folder.finish(result, trainer.device)
    return result


def best_content(trainer: Trainer) -> dict[str, Any]:
    """Return what the file of the best weights holds: enough to build the model and to know where it comes from."""
    assert trainer.best is not None
    weights = trainer.best.weights
    return {"config": trainer.config.as_dict(), "epoch": trainer.best.record["epoch"], "weights": weights}


class RunFolder:
    """A run on disk. At every moment it holds nothing, a run that can go on, or a finished one."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self._pace = SavingPace(first_at_once=True)
        self._best_epoch: float | None = None

    def check(self, *, resume: bool) -> None:
        """Refuse a folder that holds a run, unless to resume that very config."""
        try:
            held = [name for name in (CONFIG, CHECKPOINT, BEST_WEIGHTS, RESULT) if (self.path / name).exists()]
        except OSError as error:
            raise UserError(
                f"--out {self.path} cannot be used: {error.strerror}. Give a folder you may write."
            ) from None
        if held and not resume:
            raise UserError(
                f"{self.path} already holds a run ({', '.join(held)}): add --resume to go on, or choose another --out."
            )
        if CONFIG in held:
            check_same_config(read_json(self.path / CONFIG), self.config.as_dict())
        elif RESULT in held:
            check_same_config(read_json(self.path / RESULT, "config")["config"], self.config.as_dict())
        elif BEST_WEIGHTS in held:
            check_same_config(checkpoint.load(self.path / BEST_WEIGHTS)["config"], self.config.as_dict())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Ours alone while open; left as it was found if nothing was written.

        Raises:
            UserError: if the folder cannot be made, or another process trains there.
        """
        try:
            new = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise UserError(
                f"--out {self.path} cannot be used: {error.strerror}. Give a folder you may write."
            ) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                new = False
                raise UserError(f"{self.path} is in use: another process is training there.") from None
            yield
        except BaseException:
            if new:
                with suppress(OSError):  # not empty: there is a run to go on with
                    self.path.rmdir()
            raise
        finally:
            os.close(descriptor)

    def result(self, problem: Problem) -> TrialResult | None:
        """Return the finished run, if it is one."""
        if not (self.path / RESULT).exists():
            return None
        content = read_json(self.path / RESULT, "config", "outcome", "metrics", "history")
        best = self.path / BEST_WEIGHTS
        return TrialResult(
            config=content["config"],
            outcome=content["outcome"],
            metrics=_undefined_as_nan(content["metrics"]),
            history=[_undefined_as_nan(record) for record in content["history"]],
            checkpoint=best if best.exists() else None,
            problem=problem,
            weights=None,
            reason=content.get("reason"),
            diagnosis=content.get("diagnosis"),
        )

    def go_on(self, trainer: Trainer) -> None:
        """Bring the trainer to the last checkpoint, if there is one."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return
        state = checkpoint.load(path)
        try:
            trainer.load_state_dict(state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"checkpoint {path} does not fit this version or problem: {str(error).splitlines()[0]}."
                " Nothing was changed; start anew with another --out."
            ) from None

    def save_if_due(self, trainer: Trainer) -> Callable[[], None]:
        """Called between mini-batches: saves as often as its own cost allows."""

        def save() -> None:
            if self._pace.due:
                self.save(trainer)

        return save

    def save(self, trainer: Trainer) -> None:
        """Save the best weights if they are new, then everything."""
        with self._pace.saving():
            if not (self.path / CONFIG).exists():
                write_json(self.path / CONFIG, self.config.as_dict())
            if trainer.best is not None and trainer.best.record["epoch"] != self._best_epoch:
                self._best_epoch = trainer.best.record["epoch"]
                checkpoint.save(self.path / BEST_WEIGHTS, best_content(trainer))
            checkpoint.save(self.path / CHECKPOINT, trainer.state_dict())

    def finish(self, result: TrialResult, device: torch.device) -> None:
        """Write ``result.json``: the run is done."""
        write_json(
            self.path / RESULT,
            {
                "config": result.config,
                "outcome": result.outcome,
                **({} if result.reason is None else {"reason": result.reason}),
                "metrics": result.metrics,
                "history": result.history,
                **({} if result.diagnosis is None else {"diagnosis": result.diagnosis}),
                "environment": environment(device),
            },
        )


def environment(device: torch.device) -> dict[str, str]:
    """Versions and device: what exact repetition depends on besides the config."""
    return {
        "tune_mtl": metadata.version("tune-mtl"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
    }


def _undefined_as_nan(record: Mapping[str, float | None]) -> Record:
    return {name: float("nan") if value is None else value for name, value in record.items()}


@contextmanager
def torch_settings(*, deterministic: bool) -> Iterator[None]:
    """Threads and determinism as the trial wants them; as they were, after it."""
    threads, before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(before)
