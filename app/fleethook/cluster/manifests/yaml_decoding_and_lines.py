"""Decode YAML and JSON as kubectl does: values, their lines, and the lines of their fields (sigs.k8s.io/yaml).

A file is composed again only when a caller asks for the line of a field in it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple, NoReturn

import yaml
from yaml.reader import ReaderError

from fleethook.cluster.manifests.yaml_scalars import PLAIN, make_number, read_key, read_scalar
from fleethook.model.json import JSON, JSONObject

# An apiserver accepts objects of at most 3 MiB, and the shortest node takes two bytes. A file that expands to more
# values is an alias bomb.
MAX_NODES: Final = 1_000_000
_MERGE: Final = (PLAIN, "tag:yaml.org,2002:merge")
# Python's own limit for the conversion to JSON is lower.
_MAX_DEPTH: Final = 1_000
_COLUMNS: Final = re.compile(r"^[ ?:-]+", re.MULTILINE)
_SEPARATOR: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)

_SPACE: Final = re.compile(r"[ \t\r\n]*")
# An escape for half of a surrogate pair.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_BASE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestError(ValueError):
    """A manifest cannot be read; the text is ``FILE:LINE: reason``, or ``FILE: reason`` for line 0, the whole file."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        self.source = source
        self.line = line
        self.reason = reason
        super().__init__(f"{self.place}: {reason}")

    @property
    def place(self) -> str:
        """``FILE:LINE``, or the file alone."""
        return f"{self.source}:{self.line}" if self.line else self.source


class Document(NamedTuple):
    """One object and its position in a file."""

    object: JSONObject
    source: str
    line: int
    text: str = ""
    """The part of the file that holds the object (`Value.text`)."""
    path: tuple[int, ...] = ()
    """Number of the YAML document in `text`, then the index in each list (``kind: List``) around the object."""
    first_line: int = 0
    """Number of lines of the file before `text`."""

    @property
    def place(self) -> str:
        """``FILE:LINE``, or the source alone for an object that has no line, such as one of a cluster."""
        return f"{self.source}:{self.line}" if self.line else self.source


class _Loader(_BASE):  # type: ignore[misc]
    """Builds node trees; `fleethook.cluster.manifests.yaml_scalars` finds the types of scalars."""

    yaml_implicit_resolvers: ClassVar = {None: [(PLAIN, re.compile(""))]}


class Value(NamedTuple):
    """One document of any type and its position in a file."""

    value: JSON
    line: int
    number: int
    """Position among the YAML documents of `text`, empty ones included."""
    text: str = ""
    """The part of the file that holds the document: from its separator ``---`` to the next one."""
    first_line: int = 0
    """Number of lines of the file before `text`."""


def read_values(text: str, *, source: str) -> list[Value]:
    """Return the documents in ``text`` except empty ones.

    Args:
        text: YAML, JSON or several JSON values one after the other.
        source: The name of the file in errors.

    Raises:
        ManifestError: The first document that is not YAML, has a duplicate key or a value without JSON form.
    """
    return [_raise_error(found) for found in scan_values(text, source=source)]


def _raise_error(found: Value | ManifestError) -> Value:
    if isinstance(found, ManifestError):
        raise found
    return found


def scan_values(text: str, *, source: str) -> Iterator[Value | ManifestError]:
    """Yield the documents in ``text`` except empty ones, and an error in place of each that cannot be read.

    As kubectl does, the text is split at lines that begin with ``---``, so an error ends at the next separator.
    """
    values = _scan_json(text, source) if text.lstrip().startswith("{") else None
    if values is not None:
        yield from values
        return
    line = 0
    for part in _split_documents(text):
        for found in _scan_yaml(part, line, source):
            yield _add_hint(found, part) if isinstance(found, ManifestError) else found
        line += part.count("\n")


def _scan_json(text: str, source: str) -> list[Value | ManifestError] | None:
    """Return the values of a text of JSON values one after the other, None for another text."""
    found: list[Value | ManifestError] = []
    line, counted, start = 0, 0, _skip_space(text, 0)
    while start < len(text):
        line, counted = line + text.count("\n", counted, start), start
        try:
            value, end = _decode_json(text, start)
            if _SURROGATE.search(text, start, end):
                _check_characters(value)
        except (json.JSONDecodeError, RecursionError) as error:
            # kubectl reads a text with fewer values as YAML: apimachinery v0.36, util/yaml/decoder.go.
            return [*found, ManifestError(source, line + 1, str(error))] if len(found) > 1 else None
        except ValueError as error:
            return [*found, ManifestError(source, line + 1, str(error))]
        if value is not None:
            found.append(Value(value, line + 1, 0, text[start:end], line))
        start = _skip_space(text, end)
    return found


def _skip_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def _make_object(members: list[tuple[str, JSON]]) -> JSONObject:
    found = dict(members)
    if len(found) < len(members):
        names = Counter(name for name, _ in members)
        raise ValueError(f"duplicate key {names.most_common(1)[0][0]!r}")
    return found


def _check_characters(value: JSON) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("an escape is half of a surrogate pair") from None


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text!r} is not a number that JSON has")


_decode_json: Final = json.JSONDecoder(
    object_pairs_hook=_make_object,
    parse_float=lambda text: make_number(float(text)),
    parse_int=lambda text: make_number(int(text)),
    parse_constant=_refuse_constant,
).raw_decode


def _add_hint(error: ManifestError, text: str) -> ManifestError:
    if "{{" not in text:
        return error
    hint = "the document looks like a Helm template: render it first, or leave the file out"
    return ManifestError(error.source, error.line, f"{error.reason}; {hint}")


def _split_documents(text: str) -> Iterator[str]:
    start = 0
    for separator in _SEPARATOR.finditer(text):
        yield text[start : separator.start()]
        start = separator.start()
    yield text[start:]


def _scan_yaml(text: str, first_line: int, source: str) -> Iterator[Value | ManifestError]:
    """Yield the documents of a part of a file; after a syntax error, the rest of the part is lost."""
    try:
        for number, node in enumerate(_compose(text)):
            try:
                value = _Converter(source, first_line).value(node)
            except ManifestError as error:
                yield error
                continue
            if value is not None:
                yield Value(value, first_line + node.start_mark.line + 1, number, text, first_line)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        yield ManifestError(source, first_line + (mark.line if mark else 0) + 1, error.problem or "is not YAML")
    except ReaderError as error:
        yield ManifestError(source, first_line + 1, str(error.reason))
    except RecursionError:
        yield ManifestError(source, first_line + 1, "is nested too deep")


class _Converter:
    """Converts the nodes of one document to JSON values. As kubectl does, it ignores unknown tags."""

    def __init__(self, source: str, first_line: int) -> None:
        self._source: Final = source
        self._first_line: Final = first_line
        self._nodes = 0

    def _error(self, node: yaml.Node, reason: str) -> ManifestError:
        line = self._first_line + node.start_mark.line + 1
        return ManifestError(self._source, line, f"{reason} (column {node.start_mark.column + 1})")

    def value(self, node: yaml.Node) -> JSON:
        """Return the JSON value of ``node``; each use of an alias is expanded."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(node, f"expands to more than {MAX_NODES} values")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(element) for element in node.value]
        try:
            return read_scalar(node.tag, node.value)
        except ValueError as error:
            raise self._error(node, str(error)) from None

    def _mapping(self, node: yaml.MappingNode) -> JSONObject:
        found: JSONObject = {}
        own: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.value == "<<" and key_node.tag in _MERGE:
                # As kubectl does: merged members replace those before them, too.
                for inherited in self._merged(value_node):
                    found |= inherited
                continue
            key = self._key(key_node)
            if key in own:
                raise self._error(key_node, f"duplicate key {key!r}")
            own.add(key)
            found[key] = self.value(value_node)
        return found

    def _merged(self, node: yaml.Node) -> Iterator[JSONObject]:
        """Yield the mappings to merge, the one with precedence last."""
        sources = reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]
        for inherited in sources:
            value = self.value(inherited)
            if not isinstance(value, dict):
                raise self._error(inherited, "'<<' merges mappings only")
            yield value

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, "a key must be a scalar")
        try:
            return read_key(node.tag, node.value)
        except ValueError as error:
            raise self._error(node, str(error)) from None


def compose(text: str) -> list[yaml.Node]:
    """Return the node trees of the YAML documents in ``text``, which `read_values` has accepted."""
    # JSON, but not YAML, has escapes for halves of surrogate pairs.
    return list(_compose(_SURROGATE.sub(r"\\ufffd", text)))


def _compose(text: str) -> Iterator[yaml.Node]:
    _check_depth(text)
    loader = _Loader(text)
    try:
        while loader.check_node():
            yield loader.get_node()
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Raise RecursionError for a text that is nested too deep: PyYAML's composer in C would end the process."""
    brackets = text.count("[") + text.count("{")
    # Each level of blocks takes a column, and a sequence may begin in the column of its key.
    columns = max(map(len, _COLUMNS.findall(text)), default=0)
    if brackets + 2 * columns < _MAX_DEPTH:
        return
    loader, depth = _Loader(text), 0
    try:
        while loader.check_event() and depth < _MAX_DEPTH:
            event = loader.get_event()
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
    finally:
        loader.dispose()
    if depth >= _MAX_DEPTH:
        raise RecursionError


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
        node = self._find(document, field)[0]
        return node.value if isinstance(node, yaml.ScalarNode) else ""

    def first_line(self, document: Document, field: str) -> int:
        """Return the line of the first line of a text that the file has as a literal block, 0 for other fields."""
        node, line = self._find(document, field)
        return line + 1 if isinstance(node, yaml.ScalarNode) and node.style == "|" else 0

    def _find(self, document: Document, field: str) -> tuple[yaml.Node | None, int]:
        """Return the node of a field, or of its nearest parent, and its line."""
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
