"""Find the lines of fields in YAML files. A file is composed only when a caller asks for a line in it."""

import re
from typing import Final

import yaml

from fleethook.cluster.manifests.yaml_reader import Document, compose

_INDEX: Final = re.compile(r"\.?\[(\d{1,9})\]")
_KEY_END: Final = (".", "[")


class FieldLines:
    """Finds the lines of fields. It caches the node trees of files, so drop it after use."""

    def __init__(self) -> None:
        self._composed: Final[dict[str, list[yaml.Node]]] = {}

    def line(self, document: Document, field: str) -> int:
        """Return the line of a field of a document, counted from 1.

        Args:
            document: As read from a file.
            field: A path such as ``entries[1].patches[0].path``; names may contain dots. For a missing field, the
                result is the line of its nearest existing parent.
        """
        return self._find(document, field)[1]

    def written(self, document: Document, field: str) -> str:
        """Return a scalar as the file has it, such as ``1.10`` for the number 1.1; ``""`` if the field is no scalar."""
        node, _ = self._find(document, field)
        return node.value if isinstance(node, yaml.ScalarNode) else ""

    def first_line(self, document: Document, field: str) -> int:
        """Return the line of the first line of a text that the file has as a literal block, 0 for other fields."""
        node, line = self._find(document, field)
        return line + 1 if isinstance(node, yaml.ScalarNode) and node.style == "|" else 0

    def _find(self, document: Document, field: str) -> tuple[yaml.Node | None, int]:
        if not document.text:
            return None, document.line
        nodes = self._composed.get(document.text)
        if nodes is None:
            nodes = self._composed[document.text] = compose(document.text)
        node, line = nodes[document.path[0]], document.line - document.first_line
        for number in document.path[1:]:
            node, line = _walk(node, f"items[{number}]", line)
        node, line = _walk(node, field, line)
        return node, document.first_line + line


def _walk(node: yaml.Node, field: str, line: int) -> tuple[yaml.Node, int]:
    while field:
        step = _element(node, field) if isinstance(node, yaml.SequenceNode) else _member(node, field)
        if step is None:
            break
        node, line, field = step
    return node, line


def _element(node: yaml.SequenceNode, field: str) -> tuple[yaml.Node, int, str] | None:
    found = _INDEX.match(field)
    if found is None or int(found.group(1)) >= len(node.value):
        return None
    element: yaml.Node = node.value[int(found.group(1))]
    return element, element.start_mark.line + 1, field[found.end() :]


def _member(node: yaml.Node, field: str) -> tuple[yaml.Node, int, str] | None:
    """Return the member whose name is the longest beginning of ``field``: names may contain dots and brackets."""
    if not isinstance(node, yaml.MappingNode):
        return None
    field = field.removeprefix(".")
    best: tuple[yaml.Node, int, str] | None = None
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        rest = field.removeprefix(name)
        if (
            name
            and len(rest) < len(field)
            and (not rest or rest[0] in _KEY_END)
            and (best is None or len(rest) < len(best[2]))
        ):
            best = value, key.start_mark.line + 1, rest
    return best
