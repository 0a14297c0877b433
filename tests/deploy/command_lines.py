"""Command lines in files for people: found, and read by the parsers of the commands themselves."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

PROGRAMS = ("tune-mtl", "ray", "mlflow")


def command_lines(text: str) -> Iterator[list[str]]:
    """Every call of one of ``PROGRAMS`` in shell ``text``, also one quoted for another command."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        call: list[str] = []
        for word in [*lexer, ";"]:
            if re.fullmatch(r"[;&|<>()]+", word):
                if call and call[0] in PROGRAMS:
                    yield call
                call = []
            elif call or not re.match(r"\w+=", word):  # assignments before a command are none of its words
                call.append(word)
            if word.startswith(tuple(f"{program} " for program in PROGRAMS)):
                yield from command_lines(word)


def code_blocks(markdown: str) -> str:
    """What a page tells its readers to type."""
    return "\n".join(re.findall(r"```(?:sh|console)\n(.*?)```", markdown, flags=re.DOTALL))


def parse(words: list[str]) -> dict[str, Any]:
    """The options that a command would see; raises what its own parser raises. Nothing is run."""
    program, *rest = words
    group = _parser(program)
    name, command, rest = group.resolve_command(group.make_context(program, list(rest), resilient_parsing=True), rest)
    assert command is not None, f"{program} has no command '{name}'"
    return dict(command.make_context(name, list(rest)).params)


def _parser(program: str) -> Any:
    if program == "ray":
        from ray.scripts.scripts import cli

        return cli
    if program == "mlflow":
        from mlflow.cli import cli as mlflow_cli

        return mlflow_cli
    from typer.main import get_command

    from tune_mtl.cli import app

    return get_command(app)
