"""The laws of strategies: what holds for every one that is built in, to hold one's own to; nothing of Ray or MLflow."""

from tune_mtl.testing.law import Law, LawResult
from tune_mtl.testing.laws import LAWS
from tune_mtl.testing.suite import HeldToLaw, LawsBroken, check_strategy, parametrize_with_laws

__all__ = ["LAWS", "HeldToLaw", "Law", "LawResult", "LawsBroken", "check_strategy", "parametrize_with_laws"]
