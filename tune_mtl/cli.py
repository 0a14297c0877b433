"""The command line: its commands, and how a mistake of the user's ends. Loads torch only for commands that train."""

import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
import typer.core
import typer.exceptions

from tune_mtl.commands import export, ready, reproduce, results, search, train
from tune_mtl.commands.settings_flags import SettingsCommand, SpaceCommand
from tune_mtl.core.errors import UserError
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.core.process.signals import Interrupted, exit_code
from tune_mtl.core.version import VERSION
from tune_mtl.tracking.sqlite_file import trouble_with_file


class _Commands(typer.core.TyperGroup):
    """The commands, each of which may be stopped: Typer itself would forget by what, and how to go on."""

    def invoke(self, ctx: Any) -> Any:
        """Run the one that was asked for."""
        try:
            return super().invoke(ctx)
        except Interrupted as stopped:
            typer.echo(f"interrupted. To go on: {stopped.way_on}", err=True)
            raise typer.Exit(exit_code()) from None
        except KeyboardInterrupt:
            raise typer.Exit(exit_code()) from None


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tune-mtl {VERSION}")
        raise typer.Exit


app = typer.Typer(
    name="tune-mtl",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Which multi-task optimisation strategy, how many task groups, at which learning rate - for your problem?",
)


@app.callback()
def _before_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


_WITH_SETTINGS: dict[Callable[..., None], type[SettingsCommand]] = {
    search.search: SettingsCommand,
    ready.spaces: SpaceCommand,
}

for command in (
    train.train, ready.prepare, ready.doctor, ready.check, ready.check_problem, ready.problems,
    ready.strategies, ready.optimizers, ready.schedules, ready.spaces, ready.algorithms,
    search.search, search.resume, search.extend, search.confirm,
    search.factorial, reproduce.reproduce,
    results.report, results.claims, results.best, export.export,
):  # fmt: skip
    app.command(cls=_WITH_SETTINGS.get(command))(command)
app.command("list")(results.list_searches)
app.command()(results.rm)
app.command()(results.ui)


def main() -> NoReturn:
    """Run the command line: a mistake of the user's is one line on stderr and exit code 2."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        code = _fail(" ".join(without_secrets(str(error)).split()))
    except typer.exceptions.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        code = _fail(" ".join(message.split()))
    except (typer.Abort, KeyboardInterrupt):
        code = exit_code()
    except Exception as error:
        trouble = trouble_with_file(error)
        if trouble is None:
            raise
        code = _fail(trouble)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    typer.echo(f"error: {message}", err=True)
    return 2


if __name__ == "__main__":
    main()
