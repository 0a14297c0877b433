"""What Ray does not promise is as `ray_tune/compat.py` takes it to be: else a line says what has moved."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray._private import ray_constants, services
from ray._private import utils as ray_utils
from ray._private.worker import Worker
from ray._raylet import AuthenticationTokenLoader, Config
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import RayActorError
from ray.train._internal.checkpoint_manager import _CheckpointManager
from ray.tune import Trainable
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.experiment.trial import _TrainingRunMetadata
from ray.tune.impl.tuner_internal import TunerInternal
from ray.tune.schedulers import ASHAScheduler
from ray.tune.schedulers.async_hyperband import _Bracket
from ray.tune.search import SearchGenerator

from tune_mtl.ray_tune import compat

ATTRIBUTES = [
    (ray_constants, "ENABLE_RAY_CLUSTER", "where a Ray of our own listens"),
    (ray_utils, "set_sigterm_handler", "Ray's own way to treat SIGTERM"),
    (services, "canonicalize_bootstrap_address", "which cluster 'auto' is"),
    (Config, "initialize", "reading the environment again"),
    (AuthenticationTokenLoader, "instance", "the token"),
    (AuthenticationTokenLoader, "reset_cache", "the token"),
    (AuthenticationTokenLoader, "has_token", "the token"),
    (AuthenticationTokenLoader, "get_raw_token", "the token"),
    (TuneController, "get_live_trials", "the trials that have not ended"),
    (TuneController, "save_to_dir", "writing the experiment's state"),
    (TuneController, "experiment_state_path", "where the experiment's state is staged"),
    (TuneController, "_trial_task_failure", "judging failures of trials"),
    (TuneController, "_schedule_trial_stop", "ending a trial that never ran"),
    (TuneController, "_mark_trial_to_checkpoint", "ending a paused trial, so that a snapshot knows"),
    (TuneController, "stop_trial", "ending a paused trial"),
    (TuneController, "update_max_pending_trials", "how many trials may wait for their workers"),
    (TuneController, "search_alg", "telling the searcher how a paused trial ended"),
    (Trial, "latest_checkpoint_result", "how far a paused trial was saved"),
    (Trial, "has_reported_at_least_once", "whether a trial has ever run"),
    (SearchGenerator, "set_finished", "asking for no other trial"),
    (Trial, "init_local_path", "the folder of a trial that never ran"),
    (Trial, "handle_error", "judging failures"),
    (Trial, "pickled_error_file", "the error of a trial"),
    (RayActorManager, "_actor_task_failed", "judging failures of actors"),
    (RayActorManager, "num_pending_actors", "whether a trial waits for room"),
    (_TrainingRunMetadata, "invalidate_cache", "forgetting what no resume needs"),
]

SET_IN_CONSTRUCTORS = [
    (TuneController, "_session_str", "the names of state files"),
    (TuneController, "_search_alg", "asking for no other trial"),
    (TuneController, "_resetting_trials", "a worker that is lost while it is made ready for a trial"),
    (TuneController, "_actor_manager", "whether a trial waits for room"),
    (TuneController, "_trials_to_cache", "the trials that changed"),
    (ASHAScheduler, "_trial_info", "who is in a bracket"),
    (ASHAScheduler, "_brackets", "rungs"),
    (ASHAScheduler, "_num_stopped", "rungs"),
    (_Bracket, "_rungs", "rungs"),
    (_TrainingRunMetadata, "num_failures", "failures that count"),
    (_TrainingRunMetadata, "checkpoint_manager", "superseded checkpoints"),
    (_TrainingRunMetadata, "metric_analysis", "statistics that nobody asks for"),
    (_TrainingRunMetadata, "metric_n_steps", "statistics that nobody asks for"),
    (_CheckpointManager, "_checkpoint_results", "superseded checkpoints"),
    (_CheckpointManager, "_latest_checkpoint_result", "superseded checkpoints"),
    (TunerInternal, "_tune_config", "scheduler and searcher of a restored tuner"),
    (TunerInternal, "_run_config", "callbacks of a restored tuner"),
    (Worker, "node", "who has started Ray"),
    (Trainable, "_iteration", "starting a trial again"),
    (Trainable, "_time_total", "starting a trial again"),
]


def name_of(owner: object) -> str:
    return getattr(owner, "__name__", type(owner).__name__)


def names_of(touched) -> list[str]:
    return [f"{name_of(owner)}.{attribute}" for owner, attribute, _ in touched]


@pytest.mark.parametrize(
    ("owner", "attribute", "stands_for"), ATTRIBUTES, ids=[f"{name_of(o)}.{a}" for o, a, _ in ATTRIBUTES]
)
def test_what_is_used_of_ray_is_there(owner, attribute, stands_for):
    assert hasattr(owner, attribute), f"Ray has moved {name_of(owner)}.{attribute} ({stands_for}): see compat.py"


@pytest.mark.parametrize(
    ("owner", "attribute", "stands_for"),
    SET_IN_CONSTRUCTORS,
    ids=names_of(SET_IN_CONSTRUCTORS),
)
def test_what_instances_hold_is_set_by_their_constructors(owner, attribute, stands_for):
    source = inspect.getsource(owner)
    assert re.search(rf"self\.{attribute}\b", source), (
        f"Ray has moved {owner.__name__}.{attribute} ({stands_for}): see compat.py"
    )


def trial(name: str) -> SimpleNamespace:
    return SimpleNamespace(trial_id=name, config={}, status="RUNNING")


def halving(values=()):
    made = ASHAScheduler(time_attr="epoch", metric="loss", mode="min", max_t=9, grace_period=1, reduction_factor=3)
    for index, value in enumerate(values):
        one = trial(str(index))
        made.on_trial_add(None, one)
        made.on_trial_result(None, one, {"epoch": 3, "loss": value})
    return made


def test_rungs_are_read_and_put_back():
    first, second = halving([0.5, 0.2, 0.9]), halving()
    saved = compat.rungs_of(first)
    assert saved["rungs"][0], "Ray keeps rungs in another form: see compat.rungs_of"
    compat.put_rungs_back(second, saved)
    assert compat.rungs_of(second) == saved


def test_a_trial_is_known_until_it_is_forgotten_and_its_highest_rung_is_told():
    made, one = halving(), trial("a")
    assert not compat.knows_trial(made, one)
    made.on_trial_add(None, one)
    assert compat.knows_trial(made, one)
    assert compat.reached_rung(made, one) is None
    made.on_trial_result(None, one, {"epoch": 3, "loss": 0.1})
    assert compat.reached_rung(made, one) == 3
    compat.forget_trial(made, one)
    assert not compat.knows_trial(made, one)


def test_a_trial_that_the_scheduler_pauses_as_it_is_added_is_not_started():
    source = inspect.getsource(TuneController.add_trial)
    told, sorted_in = source.index("on_trial_add"), source.index("status_str_map[trial.status]")
    assert told < sorted_in, "Ray sorts a trial in before the scheduler hears of it: a resume would start paused ones"


def test_a_worker_that_is_lost_while_it_is_made_ready_costs_no_trial():
    """Ray tells of the lost worker first, which queues the trial again, and then of the task that failed with it."""
    failed = []
    one = trial("a")
    controller = SimpleNamespace(
        _resetting_trials=SimpleNamespace(discard=failed.append),
        _fail_fast=False,
        RAISE="RAISE",
        _print_trial_errors=False,
        _process_trial_failure=lambda trial, exception: failed.append((trial.status, exception)),
    )
    lost, own = RayActorError(), ValueError("the user's")
    one.status = "PENDING"
    with compat.judging_failures(lambda _, error: error, lambda *_: None, lambda error: error):
        TuneController._trial_task_failure(controller, one, lost)
        assert failed == [one]
        TuneController._trial_task_failure(controller, one, own)
        one.status = "RUNNING"
        TuneController._trial_task_failure(controller, one, lost)
    assert failed[1:] == [("PENDING", own), ("RUNNING", lost)]


def test_what_says_how_far_a_trial_was_saved():
    made = SimpleNamespace(latest_checkpoint_result=None)
    assert compat.saved_at(made, "epoch") == 0
    made.latest_checkpoint_result = SimpleNamespace(metrics={"epoch": 4})
    assert compat.saved_at(made, "epoch") == 4


def test_a_paused_trial_ends_with_its_last_result_for_everybody():
    told = []
    one = SimpleNamespace(trial_id="a", last_result={"best": 0.1})
    controller = SimpleNamespace(
        search_alg=SimpleNamespace(on_trial_complete=lambda name, result: told.append((name, result))),
        stop_trial=lambda trial: told.append((trial.trial_id, dict(trial.last_result))),
        _mark_trial_to_checkpoint=lambda trial: told.append(trial.trial_id),
    )
    compat.end_paused(controller, one, {"outcome": "stopped_early"})
    ended = ("a", {"best": 0.1, "outcome": "stopped_early"})
    assert told == [ended, ended, "a"]


def test_the_names_of_state_files_are_rays():
    source = inspect.getsource(inspect.getmodule(TuneController)) + inspect.getsource(
        inspect.getmodule(SearchGenerator)
    )
    for name in ("experiment_state-", "search_gen_state-"):
        assert name in source, f"Ray names the files of an experiment differently ({name}): see compat.py"


def test_private_names_of_ray_are_used_in_the_compat_modules_alone():
    root = Path(compat.__file__).parents[2]
    private = re.compile(
        r"ray\._|ray\.air\.|_local_tuner|_trial_info|_brackets\b|_search_alg\b|run_metadata|_time_total\b"
    )
    found = [
        f"{path.relative_to(root)}:{number}"
        for package in ("tune_mtl", "trainables", "search_spaces")
        for path in (root / package).rglob("*.py")
        if path.name != "compat.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if private.search(line)
    ]
    assert not found, f"private parts of Ray belong into a compat module: {found}"
