"""Decode YAML manifests into JSON objects, as Kubernetes does (sigs.k8s.io/yaml)."""

import math
import re
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import yaml

from app.model.json import JSON, JSONObject
from app.store.gc_freeze import GCFreezer

# An apiserver accepts objects of at most 3 MiB, and the shortest node takes two bytes. A file that expands to more
# values is an alias bomb.
MAX_NODES: Final = 1_000_000
# Estimated Python containers of an object and its `Document`.
_CONTAINERS: Final = 25

_BASE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestError(ValueError):
    """A manifest cannot be read; the text is ``FILE:LINE: reason``."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source}:{line}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason


class Document(NamedTuple):
    """One object and its position in a file."""

    object: JSONObject
    source: str
    line: int
    text: str = ""
    """The text of the file, for `app.store.yaml_lines`; all documents of a file share it."""
    path: tuple[int, ...] = ()
    """Number of the YAML document in the file, then the index in each list (``kind: List``) around the object."""

    @property
    def place(self) -> str:
        """``FILE:LINE``, or the source alone for an object that has no line, such as one of a cluster."""
        return f"{self.source}:{self.line}" if self.line else self.source


class _Loader(_BASE):  # type: ignore[misc]
    """YAML 1.1 as Kubernetes tools resolve it: without dates and base-60 numbers."""


# The resolver table is shared with the base class until it is replaced.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("timestamp", "int", "float")]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0|0b[01_]+|0o?[0-7_]+|[1-9][0-9_]*|0x[0-9a-fA-F_]+)"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
    ),
    list("-+0123456789."),
)


def _anchor(resolvers: dict[str, list[tuple[str, re.Pattern[str]]]]) -> None:
    """Make the two patterns above match to the end of a scalar: PyYAML anchors the start only."""
    for entries in resolvers.values():
        for position, (tag, pattern) in enumerate(entries):
            if tag.rpartition(":")[2] in ("int", "float") and not pattern.pattern.endswith("$"):
                entries[position] = (tag, re.compile(f"(?:{pattern.pattern})$"))


_anchor(_Loader.yaml_implicit_resolvers)


def read_documents(text: str, *, source: str, freezer: GCFreezer | None = None) -> list[Document]:
    """Return the objects in ``text``.

    Empty documents are skipped. A list (``kind: List``, ``DeploymentList``) yields its items.

    Args:
        text: YAML or JSON.
        source: The name of the file in errors.
        freezer: Counts the objects, if requests are served meanwhile.

    Raises:
        ManifestError: The text is not YAML, has a duplicate key or a value without JSON form, or is no API object.
    """
    documents: list[Document] = []
    for value in _each_value(text, source=source):
        for found in _objects(value.value, source, value.line, (value.number,)):
            documents.append(found._replace(text=text))
            if freezer is not None:
                freezer.add(_CONTAINERS)
    return documents


class Value(NamedTuple):
    """One document of any shape and its position in a file."""

    value: JSON
    line: int
    number: int
    """Position among the YAML documents of the file, empty ones included."""


def read_values(text: str, *, source: str) -> list[Value]:
    """Return the documents in ``text`` except empty ones; arguments and errors as for `read_documents`."""
    return list(_each_value(text, source=source))


def _each_value(text: str, *, source: str) -> Iterator[Value]:
    loader = _Loader(text)
    try:
        for number in count():
            if not loader.check_node():
                break
            node = loader.get_node()
            value = _Converter(source).value(node)
            if value is not None:
                yield Value(value, node.start_mark.line + 1, number)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ManifestError(source, mark.line + 1 if mark else 1, error.problem or "is not YAML") from None
    except yaml.YAMLError as error:
        raise ManifestError(source, 1, str(error)) from None
    except RecursionError:
        raise ManifestError(source, 1, "is nested too deep") from None
    finally:
        loader.dispose()


class _Converter:
    """Converts the nodes of one document to JSON values."""

    def __init__(self, source: str) -> None:
        self._source: Final = source
        self._nodes = 0

    def _error(self, node: yaml.Node, reason: str) -> ManifestError:
        return ManifestError(self._source, node.start_mark.line + 1, f"{reason} (column {node.start_mark.column + 1})")

    def value(self, node: yaml.Node) -> JSON:
        """Return the JSON value of ``node``; each use of an alias is expanded."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(node, f"expands to more than {MAX_NODES} values")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            self._expect(node, "seq")
            return [self.value(element) for element in node.value]
        return self._scalar(node)

    def _expect(self, node: yaml.Node, *kinds: str) -> None:
        prefix, _, kind = node.tag.rpartition(":")
        if prefix != "tag:yaml.org,2002" or kind not in kinds:
            raise self._error(node, f"the tag {node.tag} is not allowed in a manifest")

    def _mapping(self, node: yaml.MappingNode) -> JSONObject:
        self._expect(node, "map")
        merged: JSONObject = {}
        own: JSONObject = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                for inherited in self._merged(value_node):
                    merged = {**inherited, **merged}
                continue
            key = self._key(key_node)
            if key in own:
                raise self._error(key_node, f"duplicate key {key!r}")
            own[key] = self.value(value_node)
        return {**merged, **own} if merged else own

    def _merged(self, node: yaml.Node) -> Iterator[JSONObject]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for inherited in sources:
            value = self.value(inherited)
            if not isinstance(value, dict):
                raise self._error(inherited, "'<<' merges mappings only")
            yield value

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, "a key must be a scalar")
        value = self._scalar(node)
        if isinstance(value, str):
            return value
        # As JSON writes it: `1: a` is {"1": "a"}, `yes: a` is {"true": "a"}.
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def _scalar(self, node: yaml.Node) -> JSON:
        self._expect(node, "str", "int", "float", "bool", "null", "value")
        kind, text = node.tag.rpartition(":")[2], node.value
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("yes", "true", "on")
        if kind == "int":
            return self._integer(node, text.replace("_", ""))
        if kind == "float":
            return self._float(node, text.replace("_", ""))
        return text

    def _integer(self, node: yaml.Node, text: str) -> int:
        sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdecimal()
        try:
            return sign * int(f"0o{digits[1:]}" if octal else digits, 0)
        except ValueError:
            raise self._error(node, f"{text!r} is not a number") from None

    def _float(self, node: yaml.Node, text: str) -> float:
        lowered = text.lower()
        if lowered.lstrip("+-") in (".inf", ".nan"):
            raise self._error(node, f"{text!r} is not a number that JSON has")
        try:
            value = float(lowered)
        except ValueError:
            raise self._error(node, f"{text!r} is not a number") from None
        if not math.isfinite(value):
            raise self._error(node, f"{text!r} is too large a number")
        return value


def compose(text: str) -> list[yaml.Node]:
    """Return the node trees of the YAML documents in ``text``, which `read_values` has accepted."""
    loader = _Loader(text)
    nodes: list[yaml.Node] = []
    try:
        while loader.check_node():
            nodes.append(loader.get_node())
    finally:
        loader.dispose()
    return nodes


def _objects(value: JSON, source: str, line: int, path: tuple[int, ...]) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise ManifestError(source, line, "a manifest must be an object with apiVersion, kind and metadata")
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not kind or not isinstance(api_version, str) or not api_version:
        raise ManifestError(source, line, "apiVersion and kind are required")
    items = value.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _objects(item, source, line, (*path, number))
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ManifestError(source, line, f"{kind} has no metadata.name")
    for member in ("labels", "annotations"):
        if not isinstance(metadata.get(member) or {}, dict):
            raise ManifestError(source, line, f"metadata.{member} of {kind} {metadata['name']} must be a mapping")
    namespace: Hashable = metadata.get("namespace") or ""
    if not isinstance(namespace, str):
        raise ManifestError(source, line, f"metadata.namespace of {kind} {metadata['name']} must be text")
    yield Document(value, source, line, path=path)
