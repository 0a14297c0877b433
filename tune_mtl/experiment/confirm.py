"""Does it hold? The winners of a search, trained in full on fresh seeds and tested once."""

from typing import Literal

from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.core.process.signals import told_how_to_go_on
from tune_mtl.experiment.formats import RECORDED
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.manage import saved_settings
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.rerunning import Again, forget_checkpoints, train_again
from tune_mtl.experiment.reruns import plan_confirmation, plan_controls
from tune_mtl.experiment.winner_model import keep_model
from tune_mtl.preflight.doctor import require_healthy
from tune_mtl.problems.registry import load_problem
from tune_mtl.ray_tune.admission import check_address
from tune_mtl.ray_tune.cluster import Cluster, logged_to
from tune_mtl.reporting.controls import controls_that_matter
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.write import Report, write_report
from tune_mtl.results.accepted import accepted_controls
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking import names
from tune_mtl.tracking.store import reachable

LOG = "confirm.log"
DEFAULT_SEEDS = 3


def confirm(
    name: str,
    *,
    seeds: int | None = None,
    controls: int | Literal["auto", "all"] | None = None,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    problem: Problem | None = None,
) -> Report | None:
    """Train what each tuning of search ``name`` chose in full, on seeds that the search never saw.

    Nobody is stopped early, task groups are drawn anew, and each run's best epoch (by validation) is evaluated once on
    the test split. Then follow controls, in as many replicates as ``controls`` say: choices that take fewer optimizer
    steps than another are trained with as many as that one, and strategies at one learning rate. What is there already
    is not run again, and a longer run continues a shorter one; interrupted, the same call goes on.

    Args:
        name: The name of a finished search.
        seeds: How many for each tuning; default: 1 where tunings were repeated, else 3.
        controls: Instead of the search's own: ``"auto"``, ``"all"``, or in how many tunings.
        address, storage, tracking_uri, problem: As for :func:`tune_mtl.resume`.

    Returns:
        The report, written anew; None if it was interrupted.

    Raises:
        UserError: if there is no such search, or no trial of it has ended well.
    """
    if seeds is not None and seeds < 1:
        raise UserError(f"seeds={seeds} must be at least 1.")
    settings = saved_settings(name, address=address, storage=storage, tracking_uri=tracking_uri, formats=RECORDED)
    if controls is not None:
        settings = settings.model_copy(update={"controls": _checked(controls)})
    check_address(settings.address)
    plan = Plan.make(load_problem(problem or settings.problem, settings.fixed), settings)
    reachable(plan.tracking_uri, writing=True)
    again = way_on(name, seeds, controls)
    cluster = Cluster(settings.address, own_module=plan.ships_modules)
    with told_how_to_go_on(lambda: again):
        with alone_in(plan.folder), cluster, logged_to(plan.folder / LOG):
            require_healthy(plan.needs)
            count = seeds or (1 if plan.replicates > 1 else DEFAULT_SEEDS)
            if not (confirm_search(plan, count) and control_search(plan, count)):
                return None
            keep_model(plan)
        return write_report(name, tracking_uri=plan.tracking_uri)


def _checked(controls: int | str) -> int | str:
    try:
        return accepted_controls(controls)
    except ValueError as error:
        raise UserError(f"controls={controls!r} {error}.") from None


def way_on(name: str, seeds: int | None, controls: int | str | None) -> str:
    """Return the command that asks for the same confirmation."""
    asked = {"seeds": seeds, "controls": controls}
    return " ".join(
        ["tune-mtl confirm", name, *(f"--{key} {value}" for key, value in asked.items() if value is not None)]
    )


def confirm_search(plan: Plan, seeds: int) -> bool:
    """Confirm the winners of ``plan``'s search, on a Ray that runs; returns whether all runs have ended.

    The checkpoints that a control may go on from stay until :func:`control_search`.
    """
    settings = plan.settings
    search = SearchData.read(settings.name, plan.tracking_uri)
    if search.state != "complete":
        raise UserError(f"search '{settings.name}' is not complete: tune-mtl resume {settings.name} first.")
    if not search.winners:
        raise UserError(f"search '{settings.name}' has no trial that ended well: there is nothing to confirm.")
    reruns = plan_confirmation(plan, search, seeds)
    kept = frozenset(one.continues for one in plan_controls(plan, search, seeds) if one.continues is not None)
    title = f"{settings.name}, confirming"
    done = train_again(plan, Again("confirm", title, list(search.winners), reruns, search.reruns, kept=kept))
    if done:
        _keep_winner(plan)
    return done


def control_search(plan: Plan, seeds: int) -> bool:
    """Train the controls of a search whose winners are confirmed; returns whether all of them have ended.

    Which of them can change the answer is decided by what confirmation has found.
    """
    settings = plan.settings
    search = SearchData.read(settings.name, plan.tracking_uri)
    wanted = controls_that_matter(Results.of(search)) if settings.controls == "auto" else None
    common = {} if search.common_lr is None else {names.COMMON_LR: repr(search.common_lr)}
    title, reruns = f"{settings.name}, controls", plan_controls(plan, search, seeds, wanted)
    done = train_again(plan, Again("confirm", title, list(search.winners), reruns, search.reruns, common))
    if done:
        forget_checkpoints(plan, "confirm")
    return done


def _keep_winner(plan: Plan) -> None:
    """Have the search's run say which strategy is best on fresh seeds: from then on ``best`` is a config of it."""
    search = SearchData.read(plan.settings.name, plan.tracking_uri)
    winner = next(iter(Results.of(search).runs), None)
    if winner is not None and winner in search.winners:
        search.client.set_tag(search.run_id, names.WINNER, winner)
        search.client.set_tag(search.run_id, names.BEST_RUN, search.winners[winner].run_id)
