"""The flags of a command that come from ``Settings``: one for every option that can be asked for."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
import typer.core
import typer.main

from tune_mtl.commands.help_texts import OPTIMIZERS, SCHEDULES, STRATEGIES
from tune_mtl.commands.values import assignment, number
from tune_mtl.core.errors import UserError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ARGUMENTS = frozenset({"problem"})
"""What is asked for by its place, not by a flag; the command itself says so."""

_SEVERAL = " May be given several times."
_ALSO = {
    "strategies": f" Known: {STRATEGIES}.",
    "optimizer": f" Known: {OPTIMIZERS}.",
    "schedule": f" Known: {SCHEDULES}.",
    "fixed": _SEVERAL,
    "vary": _SEVERAL,
}
"""What the command line says besides, because it has no other place for it."""


class SettingsCommand(typer.core.TyperCommand):
    """A command with a flag for every option of ``Settings`` besides its own; its ``ctx.obj`` is what they were given.

    The flags are made when the command itself is asked for: every other one starts without ``Settings`` and pydantic.
    """

    only: frozenset[str] | None = None
    """The options that have a flag; None: all that can be asked for."""

    @cached_property
    def _flags(self) -> list[Any]:
        def flags(**_: Any) -> None:
            """Stand for the command, from whose signature Typer makes the flags."""

        asked = [(name, info) for name, info in _asked() if self.only is None or name in self.only]
        signature = inspect.Signature([_flag(name, info) for name, info in asked])
        flags.__signature__ = signature  # type: ignore[attr-defined]
        flags.__annotations__ = {name: flag.annotation for name, flag in signature.parameters.items()}
        made = typer.Typer(add_completion=False)
        made.command()(flags)
        return list(typer.main.get_command(made).params)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments, flags of ``Settings``, then the command's own."""
        own = super().get_params(ctx)
        arguments = [one for one in own if one.name in ARGUMENTS]
        return [*arguments, *self._flags, *(one for one in own if one.name not in ARGUMENTS)]

    def invoke(self, ctx: Any) -> Any:
        """Read what the flags were given, then run."""
        ctx.obj = given_options({flag.name: ctx.params.pop(flag.name) for flag in self._flags})
        return super().invoke(ctx)


class SpaceCommand(SettingsCommand):
    """A command with the flags that decide what a search tries."""

    only = frozenset({"space", "strategies", "lr", "groups", "optimizer", "schedule", "vary", "fixed"})


def given_options(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that flags ask for, as numbers, lists and pairs where their types say so.

    A text that is none of them stays: the record refuses it in a line.
    """
    given = {name: value for name, value in flags.items() if value not in (None, (), [])}
    if "vary" in given:
        given["vary"] = _texts_by_key(given["vary"])
    return {
        name: given[name] if name == "vary" else _read(info.annotation, given[name])
        for name, info in _asked()
        if name in given
    }


def _texts_by_key(pairs: Sequence[str]) -> dict[str, str]:
    """Return what ``--search KEY=VALUES`` says of each key, as it was typed."""
    found: dict[str, str] = {}
    for text in pairs:
        key, equals, values = text.partition("=")
        if not key or not equals:
            raise UserError(f"--search {text!r} must be KEY=VALUES: --search batch_size=64,128.")
        if key in found:
            raise UserError(f"--search {key} is given twice: put all its values into one, --search {key}=A,B.")
        found[key] = values
    return found


def _asked() -> Iterator[tuple[str, "FieldInfo"]]:
    from tune_mtl.results.settings import Settings

    for name in Settings.asked():
        if name not in ARGUMENTS:
            yield name, Settings.model_fields[name]


def _flag(name: str, info: "FieldInfo") -> inspect.Parameter:
    from tune_mtl.results.settings import Settings

    asked, kinds = Settings.asked()[name], _kinds(info.annotation)
    option = typer.Option(
        *([] if asked.flag is None else [asked.flag]),
        metavar=asked.metavar or _metavar(kinds),
        help=asked.help + _ALSO.get(name, ""),
        show_default=False,
    )
    read_as: Any = bool if bool in kinds else list[str] if dict in kinds else str
    annotation = Annotated[read_as | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _metavar(kinds: Mapping[Any, Any]) -> str | None:
    """Return what stands for a value that says nothing of its own."""
    if Literal in kinds:
        return "|".join(map(str, get_args(kinds[Literal])))
    if bool in kinds:
        return None
    return "NUMBER" if kinds.keys() & {int, float} else "TEXT"


def _read(annotation: Any, given: Any) -> Any:
    """Return what was given for an option of this type."""
    kinds = _kinds(annotation)
    if dict in kinds:
        return dict(assignment(text) for text in given)
    if tuple in kinds:
        parts = [part.strip() for part in given.split(",") if part.strip()]
        return tuple(parts if str in _kinds(get_args(kinds[tuple])[0]) else map(number, parts))
    return number(given) if kinds.keys() & {int, float} else given


def _kinds(annotation: Any) -> dict[Any, Any]:
    """Return the alternatives of a type: what each is in the end (``dict`` for ``dict[str, int]``), and it itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in (None, Literal, tuple, dict):
        return {origin or annotation: annotation}
    return {kind: found for part in get_args(annotation) for kind, found in _kinds(part).items()}
