"""Is everything ready for a long search? The driver looks at itself and asks every node; each answer is a check."""

import logging
import shlex
from collections.abc import Mapping
from contextlib import ExitStack

from tune_mtl.core.errors import UserError
from tune_mtl.preflight.checks import DRIVER, Check
from tune_mtl.preflight.nodes import Case, alive, check_driver, check_nodes
from tune_mtl.preflight.requirements import Needs, check_tracking, find_data, public, sizes
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.cluster import Cluster
from tune_mtl.tracking.store import check_storage, storage_folder
from tune_mtl.tracking.store import tracking_uri as store_uri

logger = logging.getLogger(__name__)


def examine(
    *,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    data: str | None = None,
) -> list[Check]:
    """Make all checks of `tune-mtl doctor`, on a cluster or on a local Ray of our own; they leave nothing behind.

    Args:
        address: The address of a Ray cluster; default: a local one.
        storage: The folder that all nodes share; default: ``ray`` in the home.
        tracking_uri: The MLflow store; default: ``MLFLOW_TRACKING_URI``, else ``mlflow.db`` in the home.
        data: The folder of prepared sets; default: ``TUNE_MTL_DATA``, else ``data`` here.
    """
    uri, folder = store_uri(tracking_uri), storage_folder(check_storage(storage))
    sets, checks = find_data(data)
    checks = [check_tracking(uri), *checks]
    case = Case(storage=folder, sets=tuple(sets))
    with ExitStack() as connected:
        try:
            connected.enter_context(Cluster(address, own_module=False))
        except UserError as error:
            return [_no_ray(error), *checks, *check_driver(case)]
        return [*checks, *check_nodes(case)]


def require_healthy(needs: Needs) -> None:
    """Make the same checks in seconds, on the Ray that runs, for what a search needs; warnings are logged.

    Raises:
        UserError: for the first failure, with the command that shows them all.
    """
    sets = needs.prepared
    case = Case(
        storage=needs.folder, sets=sets, thorough=False, gpus=needs.gpus > 0, least_disk=0, modules=needs.modules
    )
    checks = _room(needs)
    if all(check.state != "failure" for check in checks):  # else no node need be asked
        checks += [check_tracking(needs.store), *(check for each in sets for check in sizes(each))]
        checks += check_nodes(case)
    for check in checks:
        if check.state == "warning":
            logger.warning("%s: %s (%s)", check.where, check.what, check.way_out)
    failures = [check for check in checks if check.state == "failure"]
    if failures:
        first, more = failures[0], len(failures) - 1
        raise UserError(
            f"not ready: {first.where}: {first.what}{f' ({first.way_out})' if first.way_out else ''}."
            f" {f'{more} more. ' if more else ''}To see all: {_command(needs)}"
        )


def _room(needs: Needs) -> list[Check]:
    """Return what is wrong if a trial fits on no node: to a cluster one may be added, to this machine nothing."""
    wanted = {"CPU": needs.cpus, "GPU": needs.gpus}
    offers = [node["Resources"] for node in alive()]
    if any(all(offer.get(kind, 0) >= count for kind, count in wanted.items()) for offer in offers):
        return []
    if compat.started_here():
        (offer,) = offers
        flags = [f"--{kind.lower()}s-per-trial" for kind, count in wanted.items() if offer.get(kind, 0) < count]
        what = f"a trial is to have {_amounts(wanted)}, and this machine has {_amounts(offer)}"
        return [Check("failure", DRIVER, what, f"give less to {' and '.join(flags)}, or the --address of a cluster")]
    what = f"no node offers the {_amounts(wanted)} of a trial"
    return [Check("warning", DRIVER, what, "trials wait until one joins: see --cpus-per-trial and --gpus-per-trial")]


def _amounts(resources: Mapping[str, float]) -> str:
    """Return CPUs and GPUs as people say them."""
    counts = {kind: resources.get(kind, 0) for kind in ("CPU", "GPU")}
    return " and ".join(f"{count:g} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())


def _no_ray(error: UserError) -> Check:
    """Return why there is no Ray, from the error and what it came of."""
    reasons: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        reasons.append(" ".join(str(cause).split()))
        cause = cause.__cause__ or cause.__context__
    for text in reversed(reasons):
        if "Version mismatch" in text:
            way_out = "install the cluster's Ray and Python here, or start the cluster with these"
            return Check("failure", DRIVER, text[text.index("Version mismatch") :], way_out)
        if "InvalidAuthToken" in text:
            way_out = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to a file with the cluster's token"
            return Check("failure", DRIVER, f"{reasons[0]}: this process has not the cluster's token", way_out)
    told_how = "token" in reasons[0]  # the way out is in the line already
    way_out = "" if told_how else "see ray status on the head node, and --address HOST:PORT"
    return Check("failure", DRIVER, reasons[0], way_out)


def _command(needs: Needs) -> str:
    """Return the ``tune-mtl doctor`` for what a search was given."""
    given = {"--address": needs.address, "--storage": needs.storage, "--tracking-uri": needs.tracking_uri}
    if needs.prepared:
        given["--data"] = str(needs.prepared[0].folder)
    words = [word for flag, value in given.items() if value for word in (flag, public(value))]
    return shlex.join(["tune-mtl", "doctor", *words])
