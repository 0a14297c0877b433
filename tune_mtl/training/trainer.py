"""One trial as an object that can be run period by period, stopped, saved and continued exactly."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import torch

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import tensors
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator, global_state, isolated, seed_everything, set_global_state
from tune_mtl.strategies.grouping import Grouping
from tune_mtl.strategies.make import make_strategy
from tune_mtl.training.batch_norm import check_single_samples
from tune_mtl.training.config import Config, check_same_config
from tune_mtl.training.diagnosis.diagnosis import Diagnosis
from tune_mtl.training.divergence import Recent, losses_of, lost_weights
from tune_mtl.training.evaluation import LossMeter, evaluate, mean_loss
from tune_mtl.training.loader import batches, evaluation_order, gathered, training_order
from tune_mtl.training.measured_groups import choose_groups
from tune_mtl.training.network import AUTOCAST, choose_device, fresh_model
from tune_mtl.training.path import PathLength, traced_weights
from tune_mtl.training.scalarised import check_metric, make_scalarisation

Record: TypeAlias = dict[str, float]
"""What one evaluation reports, by name; ``epoch`` among it."""

_CHECK_EVERY = 50
"""Mini-batches between looks at the divergence flag: a look waits for the device."""


class Diverged(Exception):
    """A loss was no finite number: the trial is over."""


@dataclass(frozen=True)
class Best:
    """The best evaluation so far: its record and the weights it judged."""

    record: Record
    weights: dict[str, torch.Tensor]


class Trainer:
    """Trains one config on one problem; a period ends with an evaluation.

    Attributes:
        epoch: Epochs completed.
        diverged: Where and how, once a loss was no finite number.
        history: One record per evaluation.
        steps_per_epoch: How many steps of the strategy an epoch has; a last partial mini-batch is dropped.
        best: The best evaluation by the config's objective, or None before the first.
        strategy: Holds the model and the optimizers.
        diagnosis: What is seen of the tasks' gradients, if that was asked for.
        path: The trunk's path, or None where tasks share no trunk or all of it is frozen.
    """

    def __init__(self, problem: Problem, config: Config) -> None:
        torch.set_num_threads(config.threads)
        self.problem, self.config = problem, config
        self._flat = config.as_dict()
        self.device = choose_device(config.device)
        self._train, self._val = _split(problem, "train"), _split(problem, "val")
        self._opened: dict[str, Data | None] = {"train": self._train, "val": self._val}
        if config.batch_size > len(self._train):
            raise UserError(f"batch_size={config.batch_size} exceeds the {len(self._train)} training samples.")
        if config.accumulate > (whole := len(self._train) // config.batch_size):
            raise UserError(f"accumulate={config.accumulate} exceeds the {whole} mini-batches of an epoch.")
        check_metric(problem, config)
        self._scalarisation = make_scalarisation(problem, config)
        self.steps_per_epoch = config.steps_per_epoch(len(self._train))

        with isolated():
            seed_everything(config.seed, "init")
            model = fresh_model(problem, config.model_options, lambda: self._train)
        seed_everything(config.seed, "training")
        self._augmentation = generator(config.seed, "augmentation", device=self.device)
        model.to(self.device)
        if config.channels_last:
            model.to(memory_format=torch.channels_last)
        self._model = model
        self.check_batches("train")
        self.check_batches("val")
        grouped = choose_groups(problem, config, model, self._train, self.place, self.device)
        self._grouping_seconds = grouped.seconds
        self._make_strategy(grouped.groups)
        data = self._train, self._val
        self.diagnosis = Diagnosis(config, self.strategy, *data, self.place) if config.diagnose_every else None

        self.epoch = 0
        self.diverged: str | None = None
        self.history: list[Record] = []
        self.best: Best | None = None
        self._mini_batch = 0
        self._seconds = grouped.seconds or 0.0
        self._meter = LossMeter(self.strategy.tasks, self.device)
        self._lost: str | None = None

    def _make_strategy(self, groups: Grouping | None) -> None:
        """Make the strategy for these groups, and what follows its steps."""
        config, tasks = self.config, self.problem.tasks
        self.strategy = make_strategy(
            config.strategy,
            self._model,
            tasks,
            lr=config.lr,
            optimizer=config.optimizer,
            groups=groups,
            groups_seed=None if isinstance(groups, list) else config.groups_seed,
            seed=config.seed,
            schedule=config.schedule,
            autocast=AUTOCAST[config.precision],
            checkpoint_trunk=config.checkpoint_trunk,
            **config.strategy_options_for(config.mini_batches(self.steps_per_epoch, len(tasks))),
        )
        if config.compile:
            self.strategy.compile()
        model, by_layer = self.strategy.model, config.diagnose_every is not None
        traced = self.strategy.info.shares_trunk and traced_weights(model.trunk)
        self.path = PathLength(model, self.strategy.optimizers, by_layer=by_layer) if traced else None
        self._recent = Recent(self.path)

    def _data(self, split: str) -> Data | None:
        """Return a split, asked for once."""
        if split not in self._opened:
            self._opened[split] = self.problem.data(split)
        return self._opened[split]

    def check_batches(self, split: str) -> None:
        """Refuse a split that cannot be read, or that leaves a batch too small for the network, before training.

        Raises:
            UserError: for batches of one sample where batch normalisation needs more.
        """
        data = self._data(split)
        if data is None:
            return
        size, trains = self.config.batch_size if split == "train" else self.config.eval_batch_size, split == "train"
        name = "batch_size" if trains else "eval_batch_size"
        if size == 1:
            single = {f"{name}=1": (f"Give a larger {name}.", trains)}
        elif not trains and len(data) % size == 1:
            setting = f"{name}={size} leaves one of the {len(data)} samples of '{split}' for a last batch of its own"
            single = {setting: (f"Give another {name}.", False)}
        else:
            return
        fresh = generator(0, "augmentation", device=self.device)
        check_single_samples(self._model, single, lambda: self.place(data.batch(torch.tensor([0])), fresh))

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or a limit is reached."""
        return self.epoch >= self.config.epochs or self._spent

    @property
    def _spent(self) -> bool:
        most, longest = self.config.max_updates, self.config.max_seconds
        return (most is not None and self.updates >= most) or (longest is not None and self._seconds >= longest)

    def run_period(self, after_batch: Callable[[], None] | None = None) -> Record:
        """Train up to the next evaluation, evaluate, and return the record.

        Args:
            after_batch: Called between mini-batches, where the state can be saved.

        Raises:
            Diverged: on a non-finite training or validation loss, at most 50 mini-batches after it happened.
        """
        while True:
            self._run_epoch(after_batch)
            if self.finished or self.epoch % self.config.evaluate_every == 0:
                return self._finish_period()

    def _run_epoch(self, after_batch: Callable[[], None] | None) -> None:
        order = training_order(len(self._train), self.config.batch_size, self.config.seed, self.epoch)
        coming = batches(self._train, order[self._mini_batch :], self.place, self.device, self.config.seed, self.epoch)
        started, before = time.perf_counter(), self._seconds
        self.strategy.model.train()
        for together in gathered(coming, self.config.accumulate):
            looked = self._mini_batch // _CHECK_EVERY
            losses = self.strategy.step(*Batch.joined(together), parts=len(together))
            self._meter.add(losses, losses.counts)
            self._mini_batch += len(together)
            self._recent.add(self.epoch + 1, self._mini_batch, losses)
            self._seconds = before + time.perf_counter() - started
            if self._mini_batch // _CHECK_EVERY > looked:
                self._check_divergence()
            if self._spent:
                break
            if after_batch is not None and self._mini_batch < len(order):
                after_batch()
        self._check_divergence()
        self.epoch += 1
        self._mini_batch = 0

    def _finish_period(self) -> Record:
        started = time.perf_counter()
        trained = self._meter.means()
        record: Record = {
            "epoch": self.epoch,
            "train/loss": mean_loss(trained),
            **{f"train/loss/{task}": loss for task, loss in trained.items()},
            **self.evaluate("val"),
        }
        record |= self.problem.analyse(self.strategy.model, self.updates, self._flat)
        lost = [task for task in self.strategy.tasks if not math.isfinite(record.get(f"val/loss/{task}", 0.0))]
        if lost:
            weights = lost_weights(self.strategy.model)
            first = f"{losses_of(lost, 'validation ')}, with finite weights" if weights is None else weights
            self._diverge(f"epoch {self.epoch}, after its last mini-batch: first to be not finite: {first}")
        if self.path is not None:
            record |= {"path/total": self.path.total, "path/from_start": self.path.from_start()} | self.path.by_layer()
        self._seconds += time.perf_counter() - started
        record |= {"updates": self.updates, "seconds": self._seconds}
        if self.diagnosis is not None:  # its own seconds are not the trial's: they must not end it sooner
            record |= self.diagnosis.look(self.strategy, self.epoch, self.history, last=self.finished)
        self._keep_if_best(record)
        self.history.append(record)
        self._meter = LossMeter(self.strategy.tasks, self.device)
        return record

    @property
    def updates(self) -> int:
        """Optimizer steps taken."""
        return self.strategy.updates

    @property
    def seconds(self) -> float:
        """Of training and evaluation, over all sessions."""
        return self._seconds

    @property
    def progress(self) -> float:
        """The share of the trial that is done, from 0 to 1."""
        limits = (
            (self.epoch, self.config.epochs),
            (self.updates, self.config.max_updates),
            (self._seconds, self.config.max_seconds),
        )
        return min(1.0, max(done / limit for done, limit in limits if limit is not None))

    def _keep_if_best(self, record: Record) -> None:
        objective = self.config.objective
        if objective.metric not in record:
            raise UserError(f"metric '{objective.metric}' was not reported: has its task any labels in 'val'?")
        value = record[objective.metric]
        if objective.better(value, self.best.record[objective.metric] if self.best else None):
            weights = {name: tensor.detach().clone() for name, tensor in self.strategy.model.state_dict().items()}
            self.best = Best(record, weights)

    def evaluate(self, split: str) -> Record:
        """Losses and metrics of the current weights on ``split``; empty where the problem has no such split."""
        data = self._data(split)
        if data is None:
            return {}
        order = evaluation_order(len(data), self.config.eval_batch_size)
        coming = batches(data, order, self.place, self.device, self.config.seed, self.epoch)
        values = evaluate(self.strategy, coming, split, self.device, self.problem.joint_metrics())
        self.strategy.model.train()
        return values if self._scalarisation is None else self._scalarisation.added_to(values, split)

    def test_best(self) -> Record:
        """Evaluate the best weights once on the test split; the trainer is left as it was, its random states too."""
        if self.best is None:
            return {}
        random, augmentation = global_state(), self._augmentation.get_state()
        last = {name: tensor.clone() for name, tensor in self.strategy.model.state_dict().items()}
        self.strategy.model.load_state_dict(self.best.weights)
        values = self.evaluate("test")
        self.strategy.model.load_state_dict(last)
        self._augmentation.set_state(augmentation)
        set_global_state(random)
        return values

    def summary(self) -> Record:
        """Return what is said once of a trial: the best epoch, its validation values and its path, and the cost."""
        values: Record = {
            "updates": self.updates,
            "seconds": self._seconds,
            "memory/optimizer_mib": self._optimizer_bytes / 2**20,
        }
        if self._grouping_seconds is not None:
            values["groups/seconds"] = self._grouping_seconds
        if self.best is None:
            return values
        record = self.best.record
        values["best/epoch"] = record["epoch"]
        values |= {f"best/{name}": value for name, value in record.items() if name.startswith("val/")}
        if self.path is not None:
            total, shortest = record["path/total"], record["path/from_start"]
            values |= {
                "path/best_total": total,
                "path/best_shortest": shortest,
                "path/best_ratio": total / shortest if shortest else math.nan,
            }
        return values

    @property
    def _optimizer_bytes(self) -> int:
        """What the optimizers remember: moments, over all of a strategy's optimizers."""
        remembered = (state for optimizer in self.strategy.optimizers for state in optimizer.state.values())
        return sum(tensor.numel() * tensor.element_size() for state in remembered for tensor in tensors(state))

    def close(self) -> None:
        """Let go of the optimizers' hooks, so that everything can be freed."""
        if self.path is not None:
            self.path.close()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the run depends on; tensors are references."""
        return {
            "config": self.config.as_dict(),
            "epoch": self.epoch,
            "diverged": self.diverged,
            "lost": None if self._meter.finite() else self._first_lost(),
            "mini_batch": self._mini_batch,
            "seconds": self._seconds,
            "history": self.history,
            "best": None if self.best is None else {"record": self.best.record, "weights": self.best.weights},
            "model": self._model.state_dict(),
            "strategy": self.strategy.state_dict(),
            "path": None if self.path is None else self.path.state_dict(),
            "diagnosis": None if self.diagnosis is None else self.diagnosis.state_dict(),
            "grouping_seconds": self._grouping_seconds,
            "meter": self._meter.state_dict(),
            "random": global_state(),
            "augmentation": self._augmentation.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where ``state`` was taken.

        Raises:
            UserError: if it belongs to another config.
        """
        check_same_config(state["config"], self.config.as_dict())
        self._model.load_state_dict(state["model"])
        if self._grouping_seconds is not None and state["strategy"]["groups"] != self.strategy.groups:
            self.close()  # other hardware has rounded otherwise: the groups that began are those that go on
            self._make_strategy(state["strategy"]["groups"])
        self._grouping_seconds = state.get("grouping_seconds")
        if self.diagnosis is not None:
            self.diagnosis.load_state_dict(state["diagnosis"])
        self.strategy.load_state_dict(state["strategy"])
        if self.path is not None:
            self.path.load_state_dict(state["path"])
        self._meter.load_state_dict(state["meter"])
        self.epoch, self._mini_batch, self._seconds = state["epoch"], state["mini_batch"], state["seconds"]
        self.diverged, self._lost = state["diverged"], state.get("lost")
        self.history = [dict(record) for record in state["history"]]
        best = state["best"]
        self.best = best and Best(
            dict(best["record"]), {name: tensor.to(self.device) for name, tensor in best["weights"].items()}
        )
        self._augmentation.set_state(state["augmentation"])
        set_global_state(state["random"])

    def place(self, batch: Batch, random: torch.Generator | None = None) -> Batch:
        """Return ``batch`` as the network takes it; ``random`` instead of the trial's own source of augmentation."""
        placed = batch.to(self.device, channels_last=self.config.channels_last)
        return self.problem.to_device(placed, random or self._augmentation)

    def few_samples(self, count: int) -> Batch:
        """Return the first training samples as the network takes them; nothing of the trial is used up."""
        batch = Batch(*self._train.batch(torch.arange(min(count, len(self._train)))))
        return self.place(batch, generator(0, "augmentation", device=self.device))

    def _check_divergence(self) -> None:
        if self._meter.finite():
            self._recent.clear()
            return
        self._diverge(self._first_lost())

    def _first_lost(self) -> str:
        """Return what was not finite first, and when, also where that was before a checkpoint this run went on from."""
        first = self._lost or self._recent.first_bad(self.strategy.groups)
        place = f"epoch {self.epoch + 1}, mini-batch {self._mini_batch} or before"
        return first or f"{place}: first to be not finite was {losses_of(self._meter.lost())}"

    def _diverge(self, reason: str) -> NoReturn:
        self.diverged = reason
        raise Diverged(reason)


def _split(problem: Problem, split: str) -> Data:
    data = problem.data(split)
    if data is None or len(data) == 0:
        raise UserError(f"problem '{problem.name}' has no '{split}' data.")
    return data
