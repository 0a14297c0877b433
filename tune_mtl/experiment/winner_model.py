"""The winner's run gets its MLflow model at the end of a search, without asking."""

import logging
from dataclasses import replace

from tune_mtl.core.errors import UserError
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.exporting.run_model import model_of
from tune_mtl.results.searches import best

logger = logging.getLogger(__name__)


def keep_model(plan: Plan) -> None:
    """Put the network of the best trial into its run, once; whatever goes wrong with it, the search is done."""
    name = plan.settings.name
    if not plan.settings.export:
        return
    try:
        winner = best(name, tracking_uri=plan.tracking_uri)
        if model_of(winner.client, winner.run_id) is None:
            replace(winner, problem=plan.problem).export(to="mlflow")
    except UserError as error:
        logger.warning("the winner's run has no MLflow model: %s", error)
    except Exception:
        logger.exception("the winner's run has no MLflow model; try tune-mtl export %s --to mlflow", name)
