"""Plans, results and lists of searches, for people."""

from typing import TYPE_CHECKING

from tune_mtl.terminal.tables import console, number, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search_spaces import Dimension
    from tune_mtl.best import BestTrial
    from tune_mtl.report.claims import Claim
    from tune_mtl.report.write import Report
    from tune_mtl.searching.plan import Plan
    from tune_mtl.searching.result import SearchResult


def show_plan(plan: "Plan") -> None:
    """What a search would run, with its cost extrapolated from a few mini-batches."""
    from tune_mtl.searching.cost import measure

    settings, measured = plan.settings, measure(plan, timed=True)
    grid = settings.algorithm == "grid"
    rows = []
    for strategy in plan.space.strategies:
        dimensions = "; ".join(
            f"{name}: {_dimension(dimension, grid=grid)}" for name, dimension in plan.space.of(strategy).items()
        )
        rows.append((strategy, dimensions, _duration(measured.seconds[strategy])))
    table(
        ("strategy", "tried" if grid else "searched", "longest trial"),
        rows,
        title=f"search '{settings.name}' on {settings.problem}, space {plan.space.name}",
    )
    for reason in plan.left_out.values():
        console().print(f"left out: {reason}", soft_wrap=True)
    at_once = settings.concurrency or plan.slots
    seconds = max(measured.spent / min(at_once, plan.total), measured.seconds_per_trial)
    stopped = "" if settings.scheduler == "none" else "; early stopping saves on it"
    console().print(
        f"{plan.total} trials{_tunings(plan)} of at most {plan.budget} by {plan.objective},"
        f" algorithm {settings.algorithm}, scheduler {settings.scheduler}, balance {settings.balance}.\n"
        f"{_protocol(plan)}"
        f"At most about {_duration(seconds)} with {at_once} at once on machines like this one"
        f" ({_duration(measured.seconds_per_trial)} for the slowest trial{stopped}),"
        f" {measured.disk / 2**20:.0f} MiB on disk in {plan.storage}.\n"
        f"{measured.how}\n"
        f"{_after(plan)}Nothing was started.",
        soft_wrap=True,
    )


def _protocol(plan: "Plan") -> str:
    """Seeds, batch sizes, and which data decide."""
    seeds = ", ".join(str(seed) for seed in plan.seeds.values())
    sizes = []
    for key in ("batch_size", "eval_batch_size"):
        tried = plan.space.dimensions.get(key)
        sizes.append(str(plan.constant.get(key)) if tried is None else _dimension(tried, grid=True))
    said = f"Seed{'s' if len(plan.seeds) > 1 else ''} {seeds}; batch size {sizes[0]}, {sizes[1]} in evaluation.\n"
    protocol = getattr(plan.problem, "protocol_text", None)
    return said if protocol is None else f"{said}Protocol {protocol}.\n"


def _tunings(plan: "Plan") -> str:
    """How they are shared out."""
    return "" if plan.replicates == 1 else f" ({plan.replicates} tunings of every strategy)"


def _after(plan: "Plan") -> str:
    """What follows the trials."""
    seeds = plan.settings.confirm
    if not seeds:
        return ""
    at_least = seeds * len(plan.space.strategies) * plan.replicates
    each = "" if plan.replicates == 1 else " of each of its tunings"
    grows = " More replicates follow until the strategies are told apart." if plan.settings.replicates == "auto" else ""
    return (
        f"Then the choice of each strategy{each} on {seeds} fresh seed{'s' if seeds > 1 else ''}: {at_least} whole"
        f" runs, and controls.{grows}\n"
    )


def show_result(result: "SearchResult") -> None:
    """The best config of each strategy, the best of all, and what to do next."""
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
    """The answer, what is missing, and where the page is."""
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


def show_best(name: str, best: "BestTrial") -> None:
    """One winner, its metrics, and the command that repeats it."""
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
            f"no command repeats it: problem '{best.config['problem']}' was given as an object, which only its own"
            f" program has. There: tune_mtl.train(problem, tune_mtl.best({name!r}).config)",
            soft_wrap=True,
        )


def show_searches(tracking_uri: str | None) -> None:
    """One line per search."""
    from tune_mtl.searching.manage import summaries

    rows = [
        (
            summary.name,
            summary.problem,
            summary.state,
            ", ".join(f"{count} {outcome}" for outcome, count in sorted(summary.counts.items())) or "-",
            describe(summary.best) if summary.best is not None else "-",
        )
        for summary in summaries(tracking_uri)
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


def _dimension(dimension: "Dimension", *, grid: bool) -> str:
    """Return every value that a grid tries, or what a guided search may choose from."""
    values = dimension.points() if grid else getattr(dimension, "values", None)
    if values is not None:
        return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return f"{dimension.low:g} to {dimension.high:g}"  # type: ignore[union-attr]


def _duration(seconds: float) -> str:
    """Return a length of time in the unit that people would choose."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:.0f} days" if days < 730 else f"{days / 365:.0f} years"
