"""Plans, results and lists of searches, for people."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tune_mtl.terminal.console import console, number, table

if TYPE_CHECKING:
    from tune_mtl.reporting.claims import Claim
    from tune_mtl.reporting.write import Report
    from tune_mtl.results.best_trial import BestTrial
    from tune_mtl.results.summaries import SearchSummary


class EndedSearch(Protocol):
    """What a search gave, as far as it is shown."""

    @property
    def name(self) -> str:
        """The name of the search."""

    @property
    def best(self) -> "BestTrial | None":
        """The best trial of all."""

    @property
    def best_by_strategy(self) -> "dict[str, BestTrial]":
        """The best trial of each strategy."""

    @property
    def counts(self) -> dict[str, int]:
        """How many trials ended in each way."""

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for has ended."""

    @property
    def confirmed(self) -> int:
        """The number of fresh seeds on which choices were trained again."""

    @property
    def report(self) -> "Report | None":
        """The page, if one was written."""

    @property
    def folder(self) -> Path:
        """Where the log is."""


def show_plan(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], text: str) -> None:
    """Print what a search would run: a table of its strategies, and the rest in sentences."""
    table(header, rows, title=title)
    console().print(text, soft_wrap=True)


def show_result(result: EndedSearch) -> None:
    """Print the best config of each strategy, the best of all, and what to do next."""
    screen = console()
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.counts.items())) or "no trials"
    screen.print(
        f"\nsearch '{result.name}' {'complete' if result.complete else 'interrupted'}: {counts}", soft_wrap=True
    )
    _ranking(result.best_by_strategy)
    if result.best is not None and result.report is None:
        screen.print(f"best: {describe(result.best)}", soft_wrap=True)
    if result.report is not None:
        show_report(result.report)
    if result.best is not None:
        screen.print("\nnext:")
        if result.complete and not result.confirmed:
            screen.print(f"  tune-mtl confirm {result.name}      does it hold on fresh seeds?")
        screen.print(f"  tune-mtl best {result.name}      the best config, and the command that repeats it")
        screen.print(f"  tune-mtl ui {result.name}      compare the trials in MLflow")
    if not result.complete:
        screen.print(f"  tune-mtl resume {result.name}      go on where it stopped")
    screen.print(f"log: {result.folder}/search.log", soft_wrap=True)


def show_report(report: "Report") -> None:
    """Print the answer, what is missing, and where the page is."""
    screen = console()
    for name, said in report.answers.items():
        heading = f"{name}: " if len(report.answers) > 1 else ""
        screen.print(f"\n{heading}{said.headline}", style="bold", soft_wrap=True)
        for line in (*said.details, *(f"- {text}" for text in said.missing)):
            screen.print(line, soft_wrap=True)
    screen.print(f"\nthe whole report: {report.page}", soft_wrap=True)


def show_claims(claims: "Sequence[Claim]") -> None:
    """Verdict first, numbers below."""
    screen = console()
    for claim in claims:
        screen.print(f"{claim.verdict:>13}  {claim.text}", soft_wrap=True)
        for part in claim.numbers.split("; "):
            screen.print(f"{'':13}    {part}", soft_wrap=True)


def show_estimates(rows: Sequence[Sequence[str]], text: str) -> None:
    """Print what several searches take, and the whole in a sentence."""
    table(("search", "state", "trials", "confirming runs", "takes about"), rows, title="the paper's comparison")
    console().print(text, soft_wrap=True)


def show_reproduction(claims: "Sequence[Claim]", page: Path) -> None:
    """Print the verdicts of the claims and where the page is."""
    console().print()
    show_claims(claims)
    console().print(f"\nthe whole page: {page}", soft_wrap=True)


def show_best(name: str, best: "BestTrial") -> None:
    """Print one winner, its metrics, and the command that repeats it."""
    screen = console()
    seeds = f", mean over {best.seeds} seeds" if best.seeds > 1 else ""
    screen.print(
        f"best of search '{name}': {describe(best)}{seeds} (trial {best.trial_id}, {best.outcome})", soft_wrap=True
    )
    rows = [
        (key if key == "best/epoch" else key.removeprefix("best/"), number(value))
        for key, value in best.metrics.items()
        if key.startswith("best/")
    ]
    rows += [(key, number(value)) for key, value in best.metrics.items() if key.startswith("path/best_")]
    table(("at the best epoch", "value"), rows)
    command = best.train_command()
    if command is not None:
        screen.print(f"repeat it exactly:\n  {command}", soft_wrap=True)
    else:
        screen.print(
            f"no command repeats it: its {best.kept_from_others()} was given as an object, which only its own program"
            " has. There:"
            f" tune_mtl.train(problem, tune_mtl.best({name!r}, strategy={best.config['strategy']!r}).config)",
            soft_wrap=True,
        )


def show_searches(searches: "Sequence[SearchSummary]") -> None:
    """Print one line per search."""
    rows = [
        (
            search.name,
            search.problem,
            search.state,
            ", ".join(f"{count} {outcome}" for outcome, count in sorted(search.counts.items())) or "-",
            describe(search.best) if search.best is not None else "-",
        )
        for search in searches
    ]
    if rows:
        table(("search", "problem", "state", "trials", "best"), rows)
    else:
        console().print("no searches yet: tune-mtl search multidigits starts one.")


def describe(best: "BestTrial") -> str:
    """Strategy, learning rate, groups, whatever else was searched, and how good."""
    groups = f", {best.config['groups']} groups" if "groups" in best.config else ""
    more = [key for key in best.searched if key not in ("lr", "groups") and key in best.config]
    others = "".join(f", {key} {_value(best.config[key])}" for key in more)
    value = f"{best.objective.metric} {number(best.value)}"
    return f"{best.config['strategy']} at lr {number(best.config['lr'])}{groups}{others}: {value}"


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else "-" if value is None else str(value)


def _ranking(winners: "dict[str, BestTrial]") -> None:
    if not winners:
        return
    metric = next(iter(winners.values())).objective.metric
    searched = list(dict.fromkeys(["lr", "groups", *(key for best in winners.values() for key in best.searched)]))
    rows = [
        (
            strategy,
            number(best.value),
            *(_value(best.config.get(key)) for key in searched),
            number(best.metrics.get("best/epoch")),
            number(best.metrics.get("path/best_total")),
            best.trial_id,
        )
        for strategy, best in winners.items()
    ]
    table(("strategy", f"best {metric}", *searched, "epoch", "path", "trial"), rows)
