"""Finds the JSON path behind each line of a YAML text, so that a diff can name the origin of a line."""

from typing import Final, NamedTuple

import yaml

from fleethook.cluster.manifests.kubectl_values import NoAliasDumper, yaml_text
from fleethook.cluster.manifests.yaml_reader import compose
from fleethook.model.json import JSON

# PyYAML wraps long scalars at this width by default; a diff needs a line for each member.
_WIDTH: Final = 1 << 30


class YamlLine(NamedTuple):
    """One line of a YAML text.

    Attributes:
        text: The line without its end.
        path: The tokens of a JSON pointer to the innermost member or element that begins in the line or before it.
    """

    text: str
    path: tuple[str, ...]


def dump_yaml(value: JSON) -> str:
    """Return a value as YAML. If it has control or bidirectional characters, characters beyond ASCII are escaped."""
    return yaml_text(value, dumper=NoAliasDumper, width=_WIDTH)


def format_value(value: JSON) -> str:
    """Return a value as YAML without the marks around a document."""
    return dump_yaml(value).removesuffix("...\n").rstrip("\n")


def list_lines(value: JSON) -> list[YamlLine]:
    """Return the lines of a value as YAML, each with its path."""
    text = format_value(value)
    lines = text.split("\n")
    paths: list[tuple[str, ...]] = [()] * len(lines)
    for node in compose(text):
        _note_paths(node, (), paths)
    return [YamlLine(line, path) for line, path in zip(lines, paths, strict=True)]


def _note_paths(node: yaml.Node, path: tuple[str, ...], paths: list[tuple[str, ...]]) -> None:
    """Write the path of a node to its lines; inner nodes overwrite it."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note(key, value, (*path, str(key.value)), paths)
    elif isinstance(node, yaml.SequenceNode):
        for position, element in enumerate(node.value):
            _note(element, element, (*path, str(position)), paths)


def _note(first: yaml.Node, value: yaml.Node, path: tuple[str, ...], paths: list[tuple[str, ...]]) -> None:
    last = value.end_mark.line if value.end_mark.column else value.end_mark.line - 1
    for number in range(first.start_mark.line, min(max(last, first.start_mark.line), len(paths) - 1) + 1):
        paths[number] = path
    _note_paths(value, path, paths)
