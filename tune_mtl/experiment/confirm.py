"""Does it hold? The winners of a search, trained in full on fresh seeds and tested once."""

import hashlib
import json
from collections.abc import Callable

from tune_mtl.core.errors import UserError
from tune_mtl.core.outcome import Outcome
from tune_mtl.core.problem import Problem
from tune_mtl.core.process.signals import postponed, told_how_to_go_on
from tune_mtl.experiment.formats import RECORDED, check_format
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.manage import saved_settings
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.reruns import plan_reruns
from tune_mtl.experiment.running import followers, tracker, workload
from tune_mtl.experiment.winner_model import keep_model
from tune_mtl.preflight.doctor import require_healthy
from tune_mtl.problems.registry import load_problem
from tune_mtl.ray_tune.admission import check_address
from tune_mtl.ray_tune.cluster import Cluster, logged_to
from tune_mtl.ray_tune.halving import FairHalving
from tune_mtl.ray_tune.listed import Listed
from tune_mtl.ray_tune.loop import TrialLoop
from tune_mtl.ray_tune.trials import Ending, Trials
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.write import Report, write_report
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.searches import trials
from tune_mtl.tracking import names
from tune_mtl.tracking.store import reachable
from tune_mtl.tracking.tracker import Tracker

LOG = "confirm.log"
DEFAULT_SEEDS = 3


def confirm(
    name: str,
    *,
    seeds: int | None = None,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    problem: Problem | None = None,
) -> Report | None:
    """Train what each tuning of search ``name`` chose in full, on seeds that the search never saw.

    Nobody is stopped early, task groups are drawn anew, and each run's best epoch (by validation) is evaluated once on
    the test split. Besides, in up to three replicates, choices that take fewer optimizer steps than another are trained
    once more with as many as that one, and all strategies at one learning rate. What is there already is not run
    again; interrupted, the same call goes on.

    Args:
        name: The name of a finished search.
        seeds: How many for each tuning; default: 1 where tunings were repeated, else 3.
        address, storage, tracking_uri, problem: As for :func:`tune_mtl.resume`.

    Returns:
        The report, written anew; None if it was interrupted.

    Raises:
        UserError: if there is no such search, or no trial of it has ended well.
    """
    if seeds is not None and seeds < 1:
        raise UserError(f"seeds={seeds} must be at least 1.")
    settings = saved_settings(name, address=address, storage=storage, tracking_uri=tracking_uri, formats=RECORDED)
    check_address(settings.address)
    plan = Plan.make(load_problem(problem or settings.problem, settings.fixed), settings)
    reachable(plan.tracking_uri, writing=True)
    own = ":" in settings.problem
    again = f"tune-mtl confirm {name}{f' --seeds {seeds}' if seeds else ''}"
    with told_how_to_go_on(lambda: again):
        with alone_in(plan.folder), Cluster(settings.address, own_module=own), logged_to(plan.folder / LOG):
            require_healthy(plan.needs)
            if not confirm_search(plan, seeds or (1 if plan.replicates > 1 else DEFAULT_SEEDS)):
                return None
            keep_model(plan)
        return write_report(name, tracking_uri=plan.tracking_uri)


def confirm_search(plan: Plan, seeds: int) -> bool:
    """Confirm the winners of ``plan``'s search, on a Ray that runs; returns whether all runs have ended."""
    settings = plan.settings
    search = SearchData.read(settings.name, plan.tracking_uri)
    if search.state != "complete":
        raise UserError(f"search '{settings.name}' is not complete: tune-mtl resume {settings.name} first.")
    if not search.winners:
        raise UserError(f"search '{settings.name}' has no trial that ended well: there is nothing to confirm.")
    reruns = plan_reruns(plan, search, seeds)
    final = (Outcome.COMPLETED, Outcome.DIVERGED)
    ended = {run.trial_id: dict(run.config) for run in search.reruns if run.outcome in final}
    due = [rerun for rerun in reruns if ended.get(rerun.trial_id) != dict(rerun.config)]
    planned = json.dumps([(rerun.trial_id, dict(rerun.config)) for rerun in reruns], sort_keys=True)
    folder = plan.folder / f"confirm-{hashlib.sha256(planned.encode()).hexdigest()[:8]}"
    if not due:
        return _record(plan, tracker(plan, "confirm"), search, lambda: Ending(complete=True))
    begun = Trials.exist(folder)
    if begun:
        check_format(settings.name, settings.public())
    title = f"{settings.name}, confirming"
    follow, work = followers(plan, "confirm", title, list(search.winners), len(due)), workload(plan, test=True)
    if begun:
        running = Trials.restore(folder, work, follow, retry=True)
    else:
        loop = TrialLoop(FairHalving.nobody(plan.objective))
        running = Trials.make(folder, work, Listed([rerun.suggestion for rerun in due]), loop, follow)
    done = _record(plan, running.tracker, search, running.run)
    if done:
        running.tidy()
    return done


def _record(plan: Plan, records: Tracker, search: SearchData, run: Callable[[], Ending]) -> bool:
    """Have ``run`` tracked; returns whether all runs have ended."""
    records.open({}, {})
    ending = run()
    with postponed():
        records.flush()
        table = trials(plan.settings.name, tracking_uri=plan.tracking_uri, kind="confirm")
        common = {} if search.common_lr is None else {names.COMMON_LR: repr(search.common_lr)}
        records.close(complete=ending.complete, tags=common, table=table)
    ending.raise_failure()
    if ending.complete:
        _keep_winner(plan)
    return ending.complete


def _keep_winner(plan: Plan) -> None:
    """Have the search's run say which strategy is best on fresh seeds: from then on ``best`` is a config of it."""
    search = SearchData.read(plan.settings.name, plan.tracking_uri)
    winner = next(iter(Results.of(search).runs), None)
    if winner is not None and winner in search.winners:
        search.client.set_tag(search.run_id, names.WINNER, winner)
        search.client.set_tag(search.run_id, names.BEST_RUN, search.winners[winner].run_id)
