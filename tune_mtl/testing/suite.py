"""Hold a strategy to the laws: all at once, or one test each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.strategies.admission import Contestant
from tune_mtl.testing.law import Law, LawResult
from tune_mtl.testing.laws import LAWS
from tune_mtl.testing.subject import Subject

if TYPE_CHECKING:
    from tune_mtl.strategies.own_optimizers import AskedOptimizer

FIRST = "takes_steps"
"""The law without which no other can be tried."""


class LawsBroken(AssertionError):
    """A strategy has broken laws.

    Attributes:
        results: What came of every law that it was held to.
    """

    def __init__(self, strategy: str, results: Sequence[LawResult]) -> None:
        broken = [result for result in results if result.state == "broke"]
        count = f"{len(broken)} law{'' if len(broken) == 1 else 's'}"
        super().__init__("\n".join([f"strategy '{strategy}' breaks {count}:", *map(str, broken)]))
        self.results = list(results)


def check_strategy(
    strategy: Contestant,
    *,
    laws: Iterable[str] | None = None,
    optimizer: "AskedOptimizer | None" = None,
    groups: int | None = None,
    raises: bool = True,
    **options: Any,
) -> list[LawResult]:
    """Hold a strategy to the laws that every built-in one obeys, on small problems; it takes about a second.

    Args:
        strategy: The class, a name, or ``package.module:Class`` (found from the current directory too).
        laws: The names of those to hold it to; default: all, see ``tune_mtl.testing.LAWS``.
        optimizer: The one to train with where a law leaves the choice.
        groups: How many groups, for a strategy that has them; default: one per task.
        raises: Whether a broken law is an error; False returns the results all the same.
        **options: Flat options, as of ``make_strategy``: ``inverse_loss_power=2.0``, ``clip_norm=1.0``.

    Returns:
        One result for each law, in their order.

    Raises:
        LawsBroken: an ``AssertionError`` that names the broken laws, with their smallest examples.
        UserError: if there is no such strategy, law or option.
    """
    subject = Subject.of(strategy, optimizer=optimizer, groups=groups, options=options)
    results: list[LawResult] = []
    for law in _chosen(laws):
        if results and results[0].law == FIRST and results[0].state == "broke":
            results.append(LawResult(law.name, "does not apply", "it takes no steps that could be looked at"))
        else:
            results.append(law.hold(subject))
    if raises and any(result.state == "broke" for result in results):
        raise LawsBroken(subject.name, results)
    return results


@dataclass(frozen=True)
class HeldToLaw:
    """One strategy and one law, as a test gets them; calling it raises where the law is broken."""

    subject: Subject
    law: Law

    def __call__(self) -> LawResult:
        """Hold the strategy to the law.

        Raises:
            LawsBroken: if it breaks the law.
        """
        result = self.law.hold(self.subject)
        if result.state == "broke":
            raise LawsBroken(self.subject.name, [result])
        return result

    def __str__(self) -> str:
        return f"{self.subject.name}-{self.law.name}"


def parametrize_with_laws(
    *strategies: Contestant,
    laws: Iterable[str] | None = None,
    optimizer: "AskedOptimizer | None" = None,
    groups: int | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Parametrize a pytest test with the laws, one test each; its argument ``law`` is called to hold to it.

    The keywords are those of :func:`check_strategy`. Use it as

        @parametrize_with_laws(InverseLoss, inverse_loss_power=2.0)
        def test_it_obeys_the_laws(law):
            law()
    """
    import pytest

    subjects = [Subject.of(each, optimizer=optimizer, groups=groups, options=options) for each in strategies]
    return pytest.mark.parametrize(
        "law", [HeldToLaw(subject, law) for subject in subjects for law in _chosen(laws)], ids=str
    )


def _chosen(names: Iterable[str] | None) -> list[Law]:
    """Return the laws of these names, in the order of all laws.

    Raises:
        UserError: if there is no such law.
    """
    wanted = list(LAWS) if names is None else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in LAWS:
            raise UserError(f"unknown law '{name}'. {did_you_mean(name, LAWS)}")
    return [law for name, law in LAWS.items() if name in wanted]
