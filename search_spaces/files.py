"""Spaces in YAML files: read with every mistake named by its line, and written in the form that is read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from search_spaces.dimension import Dimension
from search_spaces.space import Space
from search_spaces.texts import read_dimension, write_dimension
from tune_mtl.core.errors import UserError, did_you_mean

LOG_SCALED = "lr"
"""The key whose ranges are searched by order of magnitude, also where a text does not say so, as ``--lr`` does."""

_KEYS = ("name", "strategies", "seeds", "dimensions", "per_strategy")
_ENDINGS = (".yaml", ".yml", ".json")
_LARGEST = 1_000_000
_TRAPS = re.compile(r"(?i:on|off|yes|no)")

Naming = Callable[[str], str]
"""From how a strategy is asked for to its name."""


def is_file(name: str) -> bool:
    """Return whether ``--space`` is given a file rather than the name of a space."""
    return name.lower().endswith(_ENDINGS) or "/" in name or Path(name).is_file()


@dataclass(frozen=True)
class Source:
    """Where a space was written: each of its places, a path of keys such as ``dimensions.lr``, has a line there."""

    name: str
    lines: Mapping[tuple[Any, ...], int]

    def at(self, *path: Any) -> str:
        """Return how a message about a place begins."""
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        where = f"{self.name}, line {line}" if line else self.name
        return f"{where}: {': '.join(map(str, path))}" if path else where


def read_space(path: Path, naming: Naming = str) -> Space:
    """Return the space in a file.

    Args:
        path: A YAML file, or a JSON file, which is YAML too.
        naming: Knows strategies that are not built in, which a file names as ``package.module:Class``.

    Raises:
        UserError: for the first mistake, with its line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"--space {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"--space {path} is no text file.") from None
    if len(text) > _LARGEST:
        raise UserError(f"--space {path} has more than a million characters: it is no search space.")
    source = Source(f"--space {path}", {})
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[tuple[Any, ...], int] = {}
        content = None if node is None else _plain(loader, node, (), lines, source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"--space {path}{line} is not YAML: {error.problem or error.context}.") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"--space {path} is not YAML: {' '.join(str(error).split())}") from None
    finally:
        loader.dispose()
    return space_of(content, Source(source.name, lines), naming, default_name=path.stem)


def space_of(content: Any, source: Source, naming: Naming = str, default_name: str | None = None) -> Space:
    """Return the space that the ``content`` of a file describes.

    Raises:
        UserError: for the first mistake.
    """
    if not isinstance(content, Mapping):
        raise UserError(f"{source.at()} must hold {', '.join(_KEYS)}; tune-mtl spaces PROBLEM prints an example.")
    for key in content:
        if key not in _KEYS:
            raise UserError(f"{source.at(key)} is nothing a space has. {did_you_mean(str(key), _KEYS)}")
    strategies = _strategies(content, source, naming)
    per_strategy: dict[str, dict[str, Dimension]] = {}
    for strategy, own in _mapping(content, source, "per_strategy").items():
        name = _named(strategy, source.at("per_strategy", strategy), naming)
        if name not in strategies:
            raise UserError(
                f"{source.at('per_strategy', strategy)} is not among the strategies, {', '.join(strategies)}: add it to"
                " them, or leave its dimensions out."
            )
        per_strategy[name] = _dimensions(own, source, "per_strategy", strategy)
    name = content.get("name", default_name)
    if not isinstance(name, str) or not name or len(name) > 100:
        raise UserError(f"{source.at('name')} must be a text, got {name!r}.")
    dimensions = _dimensions(content.get("dimensions") or {}, source, "dimensions")
    seeds = _seeds(content, source)
    try:
        return Space(name=name, strategies=strategies, dimensions=dimensions, per_strategy=per_strategy, seeds=seeds)
    except UserError as error:
        raise UserError(f"{source.at('strategies')}: {error}") from None


def content_of(space: Space, call: Naming = str) -> dict[str, Any]:
    """Return a space as plain values, of which :func:`space_of` makes the same space again.

    ``call`` says how a strategy is asked for; only the dimensions of the space's own strategies are written.
    """
    own = {call(name): _written(space.per_strategy.get(name, {})) for name in space.strategies}
    return {
        "name": space.name,
        "strategies": [call(name) for name in space.strategies],
        "seeds": list(space.seeds),
        "dimensions": _written(space.dimensions),
        "per_strategy": {name: dimensions for name, dimensions in own.items() if dimensions},
    }


def text_of(space: Space, call: Naming = str) -> str:
    """Return a space as the text of a file that :func:`read_space` reads."""
    text: str = yaml.dump(content_of(space, call), Dumper=_Dumper, sort_keys=False, width=2**20)
    return text


def _written(dimensions: Mapping[str, Dimension]) -> dict[str, Any]:
    return {name: write_dimension(its, log_is_usual=name == LOG_SCALED) for name, its in dimensions.items()}


def _strategies(content: Mapping[str, Any], source: Source, naming: Naming) -> tuple[str, ...]:
    given = content.get("strategies")
    if not isinstance(given, list) or not given:
        raise UserError(f"{source.at('strategies')} must be a list of strategies, [sus, io].")
    return tuple(_named(strategy, source.at("strategies"), naming) for strategy in given)


def _named(strategy: Any, where: str, naming: Naming) -> str:
    try:
        return naming(str(strategy))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _seeds(content: Mapping[str, Any], source: Source) -> tuple[int, ...]:
    seeds = content.get("seeds", [0])
    whole = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise UserError(f"{source.at('seeds')} must be a list of different whole numbers, [0, 1, 2].")
    return tuple(seeds)


def _mapping(content: Mapping[str, Any], source: Source, *path: str) -> Mapping[Any, Any]:
    found = content.get(path[-1]) or {}
    if not isinstance(found, Mapping):
        raise UserError(f"{source.at(*path)} must be key: value pairs.")
    return found


def _dimensions(given: Any, source: Source, *path: str) -> dict[str, Dimension]:
    if not isinstance(given, Mapping):
        raise UserError(f"{source.at(*path)} must be key: value pairs, each a key of a config and what it may be.")
    found = {}
    for key, values in given.items():
        if not isinstance(key, str) or key in ("seed", "strategy"):
            way = "use seeds" if key == "seed" else "use strategies" if key == "strategy" else "put it in quotes"
            raise UserError(f"{source.at(*path, key)} is no dimension: {way}.")
        try:
            found[key] = read_dimension(_log(values) if key == LOG_SCALED else values)
        except UserError as error:
            raise UserError(f"{source.at(*path, key)}: {error}") from None
    return found


def _log(values: Any) -> Any:
    """Return the range of a key that is searched by order of magnitude as one that says so."""
    return f"{values}:log" if isinstance(values, str) and re.fullmatch(r"[^:,]+:[^:,]+", values) else values


class _Loader(yaml.SafeLoader):
    """YAML without its traps: ``1e-3`` is a number, ``4:16`` a text (not 256), ``on`` no boolean."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse references to other places: a few of them can stand for more values than there is memory."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="references (*name) are not read", problem_mark=mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Texts that some reader of YAML would take for something else are put in quotes."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write a value anew wherever it stands."""
        return True

    def represent_list(self, data: Any) -> Any:
        """Write a list on one line."""
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)

    def represent_dict(self, data: Any) -> Any:
        """Write a mapping key by key, a range on one line."""
        return self.represent_mapping("tag:yaml.org,2002:map", data, flow_style="low" in data)


_Dumper.add_representer(list, _Dumper.represent_list)
_Dumper.add_representer(dict, _Dumper.represent_dict)
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
for _tag, _pattern, _first in (
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), "tTfF"),
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("int", re.compile(r"[-+]?\d+"), "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
):
    whole = re.compile(f"(?:{_pattern.pattern})$")
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", whole, list(_first))
    if _tag == "float":
        _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", whole, list(_first))


def _plain(loader: _Loader, node: yaml.Node, path: tuple[Any, ...], lines: dict[tuple[Any, ...], int],
           source: Source) -> Any:  # fmt: skip
    """Return what a node holds, and note in which line each key stands."""
    here = Source(source.name, {path: node.start_mark.line + 1})
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _plain(loader, key_node, path, {}, source)
            at = (*path, key) if isinstance(key, str | int | float | bool | None) else path
            lines[at] = key_node.start_mark.line + 1
            if at == path or key in found:
                said = "is there twice: leave one of them out" if at != path else "has a key that is no text"
                raise UserError(f"{Source(source.name, lines).at(*at)} {said}.")
            found[key] = _plain(loader, value_node, at, lines, source)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(loader, child, path, lines, source) for child in node.value]
    assert isinstance(node, yaml.ScalarNode)
    if node.style is None and _TRAPS.fullmatch(node.value):
        raise UserError(f"{here.at(*path)}: write true or false, or quotes around {node.value!r} if it is a text.")
    tag = node.tag.removeprefix("tag:yaml.org,2002:")
    read: Mapping[str, Callable[[str], Any]] = {
        "int": int, "float": float, "str": str, "null": lambda _: None, "bool": lambda text: text.lower() == "true",
    }  # fmt: skip
    if tag not in read:
        raise UserError(f"{here.at(*path)}: the tag {node.tag} is not read; write a plain value.")
    try:
        return read[tag](node.value)
    except ValueError:
        raise UserError(f"{here.at(*path)}: {node.value!r} is no {tag}.") from None
