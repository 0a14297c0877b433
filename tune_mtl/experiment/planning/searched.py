"""What a search may try: a space of the problem's, a file or an object, changed by what was asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from search_spaces import Choice, Dimension, IntRange, LogRange, Range, Space, find_space
from search_spaces.conditions import owner_of
from search_spaces.files import LOG_SCALED, Source, content_of, is_file, read_space, space_of, text_of
from search_spaces.kinds import kind_of
from search_spaces.texts import parse_numbers, range_of, read_dimension, write_dimension
from tune_mtl.core.errors import UserError
from tune_mtl.core.files import replace_atomically
from tune_mtl.core.problem import Problem
from tune_mtl.experiment.planning.parts import with_parts
from tune_mtl.problems.registry import PROBLEM
from tune_mtl.results.settings import Settings
from tune_mtl.strategies.admission import admit
from tune_mtl.strategies.optimizers import optimizer_info
from tune_mtl.strategies.parts import PARTS, Part, admit_part, reference_of_part
from tune_mtl.strategies.registry import everyone, known_strategy, reference_of, texts
from tune_mtl.tracking import names
from tune_mtl.training.config import Config

NEVER = {
    "seed": "replicates train with seeds of their own: use --seed, or --seeds for a grid",
    "strategy": "name strategies with --strategies",
    "strategy_from": "name strategies with --strategies",
    "problem": "search each problem by itself",
    "epochs": "it is the length of every trial: use --max-epochs",
    "max_updates": "it is the length of every trial: use --budget updates --max-updates",
    "max_seconds": "it is the length of every trial: use --budget seconds --max-seconds",
    "evaluate_every": "early stopping compares trials at the same epochs: use --set",
    "metric": "trials are compared by it: use --metric",
    "task_weights": "trials are compared by them: use --task-weights",
    "task_reference": "trials are compared with it: use --task-reference",
    "threads": "it changes the last bits of results only: use --cpus-per-trial",
    "diagnose_every": "no number depends on it: use --diagnose-every",
    "diagnose_samples": "no number depends on it: use --diagnose-samples",
    "device": "it changes the last bits of results only: use --set",
}
"""Config keys that are no dimension of a search, and what to do instead."""


def with_space(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the content of a space that is a file or an object, and what to vary as plain values.

    A search keeps the content: a file may change, or vanish.

    Raises:
        UserError: for what is no space, or what cannot be varied.
    """
    settings = dict(given)
    asked = given.get("space")
    if isinstance(asked, str) and is_file(asked):
        asked = read_space(Path(asked), admit)
    if isinstance(asked, Space):
        settings |= {"space": asked.name, "space_content": content_of(asked)}
        if given.get("strategies") is None:
            settings["strategies"] = tuple(reference_of(name) or name for name in asked.strategies)
    varied = given.get("vary")
    if varied is not None:
        settings["vary"] = _plain(varied, given)
    return settings


def _plain(varied: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    pairs = list(varied.items()) if isinstance(varied, Mapping) else list(varied)
    found: dict[str, Any] = {}
    for key, values in pairs:
        _check_key(key, found, given)
        if key in PARTS and not isinstance(values, str):
            values = [_as_text(key, each) for each in values]
        found[key] = write_dimension(_read(key, values), log_is_usual=key == LOG_SCALED)
    return found


def _as_text(part: Part, asked: Any) -> str:
    """Return the name of an optimizer or a schedule, or where one that was brought is found."""
    name = admit_part(part, asked)
    return reference_of_part(part, name) or name


def _check_key(key: str, before: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse a key that cannot be a dimension, or that something else decides."""
    if key in before:
        raise UserError(f"--search {key} is given twice: put all its values into one, --search {key}=A,B.")
    if key in NEVER:
        raise UserError(f"--search {key}: {key} is no dimension of a search; {NEVER[key]}.")
    if key.startswith(PROBLEM):
        raise UserError(f"--search {key}: all trials have the same problem; use --set {key}=VALUE.")
    whole = key.partition(".")[0]
    for decided in {key, whole} & set(given.get("fixed") or {}):
        raise UserError(f"{decided} is in --set, which every trial has, and in --search {key}: leave one of them out.")
    if key in ("lr", "groups", *PARTS) and given.get(key) is not None:
        raise UserError(f"--{key} and --search {key} say the same: leave one of them out.")


def _read(key: str, values: Any) -> Dimension:
    if (key in PARTS or key in texts()) and isinstance(values, str):
        return Choice(tuple(part.strip() for part in values.split(",")))
    if key == LOG_SCALED and isinstance(values, str):
        values = f"{values}:log" if values.count(":") == 1 else values
    try:
        return read_dimension(values)
    except UserError as error:
        raise UserError(f"--search {key}: {error}") from None


def base_space(problem: Problem, settings: Mapping[str, Any]) -> Space:
    """Return the space that was asked for, before anything is narrowed; ``settings`` as :func:`with_space` has them.

    Raises:
        UserError: if the problem has none of that name.
    """
    content = settings.get("space_content")
    if content is not None:
        return base_space_of(content)
    return find_space(problem, settings.get("space", "wide"))


def keep_space(settings: Settings, folder: Path) -> None:
    """Write the space of a search that was a file or an object into its folder, for the command that repeats it."""
    if settings.space_content is None:
        return
    space = base_space_of(settings.space_content)
    text = text_of(space, lambda name: settings.contestants.get(name, name))
    replace_atomically(folder / names.SPACE_FILE, lambda partial: partial.write_text(text))


def base_space_of(content: Mapping[str, Any]) -> Space:
    """Return the space that a search has kept."""
    return space_of(content, Source("the space of this search", {}))


def searched_space(problem: Problem, settings: Settings) -> Space:
    """Return what a search may try.

    Raises:
        UserError: for what cannot be searched.
    """
    vary = {key: _read(key, values) for key, values in settings.vary.items()}
    both = {"lr": settings.lr, "groups": settings.groups}
    for key, flag in both.items():
        if key in vary and flag is not None:
            raise UserError(f"--{key} and --search {key} say the same: leave one of them out.")
    groups = vary.pop("groups", None)
    if settings.groups is not None:
        groups = parse_numbers(settings.groups, log=False)
    space = base_space(problem, settings.model_dump(include={"space", "space_content"})).narrowed(
        strategies=settings.strategies,
        lr=None if settings.lr is None else parse_numbers(settings.lr, log=True),
        groups=groups,
        vary=vary,
        fixed=settings.decided,
        seeds=settings.seeds if settings.algorithm == "grid" else (settings.seed,),
    )
    space = with_parts(space, problem)
    _check_strategies(space.strategies, [*vary])
    space = space.each(lambda key, dimension: _typed(problem, key, dimension))
    _check_conditions(problem, space, settings)
    _check_what_all_need(problem, space)
    return space


def _check_what_all_need(problem: Problem, space: Space) -> None:
    """Refuse a space with trials that have no learning rate, or with groups for strategies that have none."""
    ungrouped = [name for name in space.strategies if not known_strategy(name).has_groups]
    groups = space.dimensions.get("groups")
    if groups is not None and ungrouped and groups.points() != (None,):
        raise UserError(
            f"space '{space.name}' has groups as a dimension of every strategy, and {', '.join(ungrouped)} has no"
            " groups: put it under per_strategy, once for each strategy that has groups."
        )
    for strategy in space.strategies:
        dimensions = space.of(strategy)
        rates = dimensions["lr"].points() if "lr" in dimensions else (problem.defaults.get("lr"),)
        usual = admit_part("optimizer", problem.defaults.get("optimizer", "adam"))
        optimizers = dimensions["optimizer"].points() if "optimizer" in dimensions else (usual,)
        if None in rates and any(optimizer_info(str(name)).default_lr is None for name in optimizers):
            raise UserError(
                f"space '{space.name}' has trials of strategy '{strategy}' without a learning rate: give --lr"
                " 1e-4:1e-1, or lr among its dimensions."
            )


def _check_strategies(strategies: Sequence[str], keys: Sequence[str]) -> None:
    """Refuse options of strategies that are not compared."""
    for key in keys:
        option = key.partition(".")[0]
        if option in Config.model_fields or owner_of(key) is not None or any(_has(name, option) for name in strategies):
            continue
        owner = next((name for name in everyone() if _has(name, option)), None)
        if owner is not None:
            raise UserError(
                f"--search {key}: it belongs to strategy '{owner}', which is not compared: add {owner} to"
                " --strategies, or leave it out."
            )


def _has(strategy: str, option: str) -> bool:
    if not option.startswith(f"{strategy}_"):
        return False
    known_strategy(strategy)
    return option.removeprefix(f"{strategy}_") in everyone()[strategy].options.model_fields


def _check_conditions(problem: Problem, space: Space, settings: Settings) -> None:
    """Refuse options of optimizers and schedules that no trial has."""
    usual = {"optimizer": "adam", "schedule": "constant", **problem.defaults}
    usual |= {part: admit_part(part, usual[part]) for part in PARTS}
    for strategy in space.strategies:
        dimensions = space.of(strategy)
        for key in dimensions:
            owned = owner_of(key)
            if owned is None:
                continue
            part, owner = owned
            tried = dimensions[part].points() if part in dimensions else (usual[part],)
            if owner not in tried:
                flag = "--set" if key in settings.fixed else "--search"
                raise UserError(
                    f"{flag} {key}: it belongs to {part} '{owner}', which no trial has (they have"
                    f" {', '.join(map(str, tried))}): --set {part}={owner}, or --search"
                    f" {part}={','.join(map(str, [*tried, owner]))}."
                )


def _typed(problem: Problem, key: str, dimension: Dimension) -> Dimension:
    """Return a range of all numbers for a key that takes them, and of whole numbers for one that takes only those."""
    if isinstance(dimension, Choice) or dimension.low % 1 or dimension.high % 1:
        return dimension
    kind = kind_of(problem, key)
    if isinstance(dimension, IntRange) and kind is float:
        return range_of(float(dimension.low), float(dimension.high), log=dimension.log)
    if isinstance(dimension, Range) and kind is int:
        return IntRange(int(dimension.low), int(dimension.high), isinstance(dimension, LogRange))
    return dimension
