"""Every touch of Ray that its documentation does not promise, each with what it stands for.

`tests/ray_tune/test_compat.py` says in a line what has moved when another version of Ray is installed; `pyproject.toml`
keeps Ray below the first version that was not tried. Nothing else in this package uses a private name of Ray's, or the
name of one of its files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import cloudpickle, tune
from ray._private import ray_constants, services
from ray._private import utils as ray_utils
from ray._private.worker import global_worker
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

# --- starting and joining a cluster --------------------------------------------------------------------------------

LOOPBACK_ARGUMENT: dict[str, Any] = {"_node_ip_address": "127.0.0.1"}
"""The argument of ``ray.init`` that says where a Ray of our own listens."""


@contextmanager
def listening_where_told() -> Iterator[None]:
    """Have a Ray of our own listen on loopback: on Linux it replaces that address by the machine's own."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def without_sigterm_handler() -> Iterator[None]:
    """Keep this process's own way to treat SIGTERM while Ray starts: the one that Ray installs exits at once."""
    before = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        ray_utils.set_sigterm_handler = before


def started_here() -> bool:
    """Return whether this process has started the Ray that it uses: nobody adds nodes to such a one."""
    node = global_worker.node
    return node is not None and bool(node.is_head())


def find_cluster() -> str | None:
    """Return the address of the cluster that runs on this machine, or of ``RAY_ADDRESS``; None if there is none."""
    try:
        found = services.canonicalize_bootstrap_address("auto")
    except (ConnectionError, ValueError):
        return None
    return None if found is None else str(found)


def reread_environment() -> None:
    """Have Ray read its environment variables and its token again, which it does once otherwise."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def authentication_token() -> str | None:
    """Return the token that Ray finds: in the environment, in the file that it names, or in the user's folder.

    Raises:
        ray.exceptions.AuthenticationError: if a token is there but cannot be read.
    """
    loader = AuthenticationTokenLoader.instance()
    loader.reset_cache()
    return str(loader.get_raw_token(ignore_auth_mode=True)) if loader.has_token(ignore_auth_mode=True) else None


# --- what a restored experiment consists of ------------------------------------------------------------------------


def scheduler_of(tuner: tune.Tuner) -> object:
    """Return the scheduler of a tuner that was restored."""
    return _config_of(tuner).scheduler


def searcher_of(tuner: tune.Tuner) -> object:
    """Return the searcher of a tuner that was restored."""
    return _config_of(tuner).search_alg


def callbacks_of(tuner: tune.Tuner) -> Sequence[tune.Callback]:
    """Return the callbacks of a tuner that was restored."""
    assert tuner._local_tuner is not None
    return tuner._local_tuner._run_config.callbacks or []


def _config_of(tuner: tune.Tuner) -> tune.TuneConfig:
    assert tuner._local_tuner is not None
    return tuner._local_tuner._tune_config


# --- the experiment while it runs ----------------------------------------------------------------------------------


def live_trials(controller: "TuneController") -> list[Trial]:
    """Return the trials that have not ended."""
    return list(controller.get_live_trials())  # type: ignore[no-untyped-call]


def ask_for_no_more(controller: "TuneController") -> None:
    """Have Ray ask the searcher for no other trial."""
    controller._search_alg.set_finished()  # type: ignore[no-untyped-call]


def let_start(controller: "TuneController", count: int) -> None:
    """Let so many trials wait for their workers, all of which Ray starts at the same time."""
    controller.update_max_pending_trials(count)


def end_unstarted(controller: "TuneController", trial: Trial) -> None:
    """End a trial that has never run; Ray's results want a folder of it."""
    trial.init_local_path()  # type: ignore[no-untyped-call]
    controller._schedule_trial_stop(trial)


def end_paused(controller: "TuneController", trial: Trial, told: Mapping[str, Any]) -> None:
    """End a trial that has run and does not now, with its last result and what is ``told`` of its end besides."""
    trial.last_result.update(told)
    controller.search_alg.on_trial_complete(trial.trial_id, result=dict(trial.last_result))
    controller.stop_trial(trial)  # type: ignore[no-untyped-call]
    controller._mark_trial_to_checkpoint(trial)


def saved_at(trial: Trial, counts: str) -> float:
    """Return how far a trial was when its last checkpoint was taken, as ``counts`` says; 0 where it has none."""
    saved: Any = trial.latest_checkpoint_result
    return 0.0 if saved is None else float(saved.metrics.get(counts, 0.0))


def waits_for_room(controller: "TuneController") -> bool:
    """Return whether a trial's worker waits for resources: not one that has them and is starting."""
    return bool(controller._actor_manager.num_pending_actors)


def failures(trial: Trial) -> int:
    """Return how many failures count against the retries of a trial."""
    return int(trial.run_metadata.num_failures)


def set_failures(trial: Trial, count: int) -> None:
    """Have so many failures count against the retries of a trial."""
    trial.run_metadata.num_failures = max(0, count)


@contextmanager
def judging_failures(
    understand: Callable[[Trial, Any], Any],
    decide: Callable[[Trial, Any, int], None],
    known: Callable[[Exception], Exception],
) -> Iterator[None]:
    """Have all failures of trials judged by us, for the length of a ``with``.

    Ray Tune tells of a failure only when it has decided about it, and gives up the whole experiment on any error of
    Ray's that it does not know, such as a worker that was killed for its memory. And it hears twice of a worker that is
    lost while it is made ready for another trial: at the first time that trial is queued again, at the second one it
    would be given up, so that one is not heard.

    Args:
        understand: Returns the error of a trial, perhaps as another one.
        decide: Is told the trial, its error, and how many failures had counted before.
        known: Returns an error of an actor as one that Ray Tune can live with.
    """
    from ray.tune.execution.tune_controller import TuneController

    handle, fail = Trial.handle_error, RayActorManager._actor_task_failed
    fail_trial = TuneController._trial_task_failure

    def handle_error(trial: Trial, exc: Any = None) -> None:
        before = failures(trial)
        error = understand(trial, exc)
        handle(trial, error)
        decide(trial, error, before)

    def task_failed(manager: RayActorManager, tracked_actor_task: Any, exception: Exception) -> None:
        fail(manager, tracked_actor_task, known(exception))

    def trial_task_failed(controller: TuneController, trial: Trial, exception: Exception) -> None:
        if trial.status == Trial.PENDING and isinstance(exception, RayActorError):
            controller._resetting_trials.discard(trial)
        else:
            fail_trial(controller, trial, exception)

    Trial.handle_error = handle_error  # type: ignore[method-assign,assignment]
    RayActorManager._actor_task_failed = task_failed  # type: ignore[method-assign,assignment]
    TuneController._trial_task_failure = trial_task_failed  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Trial.handle_error = handle  # type: ignore[method-assign]
        RayActorManager._actor_task_failed = fail  # type: ignore[method-assign]
        TuneController._trial_task_failure = fail_trial  # type: ignore[method-assign]


# --- rungs of the asynchronous successive halving ------------------------------------------------------------------


def knows_trial(halving: ASHAScheduler, trial: Trial) -> bool:
    """Return whether a trial is in one of the brackets."""
    return trial.trial_id in halving._trial_info


def forget_trial(halving: ASHAScheduler, trial: Trial) -> None:
    """Let go of a trial that has ended, which Ray remembers for ever."""
    halving._trial_info.pop(trial.trial_id, None)


def reached_rung(halving: ASHAScheduler, trial: Trial) -> float | None:
    """Return the highest rung at which the trial's value was recorded; None if it reached none."""
    reached = [
        milestone
        for bracket in halving._brackets
        for milestone, recorded in bracket._rungs
        if trial.trial_id in recorded
    ]
    return max(reached, default=None)


def rungs_of(halving: ASHAScheduler) -> dict[str, Any]:
    """Return all rungs as plain values: what was recorded at each, by trial."""
    rungs = [[dict(recorded) for _, recorded in bracket._rungs] for bracket in halving._brackets]
    return {"rungs": rungs, "stopped": halving._num_stopped}


def put_rungs_back(halving: ASHAScheduler, saved: Mapping[str, Any]) -> None:
    """Have the rungs hold what :func:`rungs_of` returned."""
    halving._num_stopped = saved["stopped"]
    for bracket, rungs in zip(halving._brackets, saved["rungs"], strict=True):
        for (_, recorded), values in zip(bracket._rungs, rungs, strict=True):
            recorded.clear()
            recorded.update(values)


# --- the state of an experiment on disk ----------------------------------------------------------------------------

TUNER_FILE = "tuner.pkl"
"""Where Ray keeps the tuner itself, in the experiment's folder."""
_GENERATOR_STATE = "search_gen_state-"
_STATES = ("experiment_state-*.json", "searcher-state-*.pkl", "callback-states-*.pkl", f"{_GENERATOR_STATE}*.json")
"""The files in which Ray keeps the state of an experiment; the star is the name of a session."""


def write_state(controller: "TuneController") -> list[Path]:
    """Have Ray write the state of the experiment into its staging folder; returns the files."""
    controller.save_to_dir()  # type: ignore[no-untyped-call]
    staging = Path(controller.experiment_state_path).parent
    session = controller._session_str
    return [path for pattern in _STATES for path in staging.glob(pattern.replace("*", session))]


def remove_state(folder: Path) -> None:
    """Remove the state of an experiment, of whatever session, from its folder."""
    for pattern in (*_STATES, "tmp-*"):
        for path in folder.glob(pattern):
            path.unlink()


def ask_for_more(folder: Path) -> None:
    """Have the experiment in ``folder`` ask its searcher for more, although that had nothing more to suggest."""
    for path in folder.glob(f"{_GENERATOR_STATE}*"):
        state: dict[str, Any] = cloudpickle.loads(path.read_bytes())
        path.write_bytes(cloudpickle.dumps({**state, "finished": False}))  # type: ignore[no-untyped-call]


def drop_what_no_resume_needs(controller: "TuneController") -> list[Path]:
    """Have Ray forget what no resume needs of the trials that changed; returns the folders of older checkpoints.

    Ray keeps statistics of every metric of every trial, which nobody asks for: they would be most of a snapshot.
    """
    folders: list[Path] = []
    changed: Iterable[Trial] = controller._trials_to_cache
    for trial in changed:
        kept: Any = trial.run_metadata
        checkpoints: list[Any] = kept.checkpoint_manager._checkpoint_results
        folders += [Path(older.checkpoint.path) for older in checkpoints[:-1]]
        if trial.status == Trial.TERMINATED:
            checkpoints.clear()
            kept.checkpoint_manager._latest_checkpoint_result = None
        else:
            del checkpoints[:-1]
        kept.metric_analysis.clear()
        kept.metric_n_steps.clear()
        kept.invalidate_cache()
    return folders
