"""CEL expressions of policies: values, members and places of a workload, and the variables of a policy.

The values of node pools are marks in a plan (`fleethook.workload_schema.value_marks`). An expression has a
variable in the place of each mark, so pools that share a plan share the expression, too.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.model.json import JSON
from fleethook.model.merge_keys import MergeSchema
from fleethook.workload_schema.value_marks import POOL_MARK, REPLICAS_MARK, SMALLEST_MARK, number_mark

ROW: Final = "variables.row"
"""The values of the workload's pool: form, hash, pool, replicas, and the values of the entries."""
FORM_COLUMN: Final = 0
DIGEST_COLUMN: Final = 1
POOL_COLUMN: Final = 2
REPLICAS_COLUMN: Final = 3
FIRST_VALUE_COLUMN: Final = 4

_MARK: Final = re.compile("(\ue000(?:pool|text[0-9]+|entry[0-9]+)\ue001)")
_TEXT_NUMBER: Final = re.compile("text([0-9]+)")
_FIRST_NUMBER: Final = number_mark(0)
_SEPARATOR: Final = "/"
_IDENTIFIER: Final = re.compile("[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_LITERALS: Final = frozenset({"true", "false", "null", "in"})
"""Identifiers that CEL does not read as the name of a member."""


class Unsupported(Exception):  # noqa: N818 - the name of the condition
    """A value or a change that no policy can express; the text is the reason.

    Attributes:
        tokens: The names of the members on the way to it, ``*`` for an element of a list; empty if unknown.
    """

    def __init__(self, reason: str, tokens: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.tokens = tokens


class Writer:
    """Writes CEL for one form of workloads; texts and numbers of entries have their columns."""

    def __init__(self, texts: int) -> None:
        """Create a writer.

        Args:
            texts: The number of texts that the entries of a pool set; their numbers follow in the row.
        """
        self.texts: Final = texts

    def value(self, value: JSON) -> str:
        """Return a JSON value as an expression."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            # CEL needs equal types in a map or list; `dyn` hides them.
            return "{" + ", ".join(f"{quote(name)}: dyn({self.value(one)})" for name, one in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(f"dyn({self.value(one)})" for one in value) + "]"
        if type(value) is int:
            return self._number(value)
        return json.dumps(value)

    def text(self, text: str) -> str:
        """Return a text as an expression, with a variable for each mark."""
        parts = [self._mark(part) if _MARK.fullmatch(part) else quote(part) for part in _MARK.split(text) if part]
        return " + ".join(parts) if len(parts) == 1 else f"({' + '.join(parts)})" if parts else '""'

    def _mark(self, mark: str) -> str:
        if mark == POOL_MARK:
            return f"{ROW}[{POOL_COLUMN}]"
        found = _TEXT_NUMBER.search(mark)
        if found is None:
            raise Unsupported("the value names the number of an entry")
        return f"{ROW}[{FIRST_VALUE_COLUMN + int(found[1])}]"

    def _number(self, number: int) -> str:
        if number < SMALLEST_MARK:
            return str(number)
        if number == REPLICAS_MARK:
            return f"int({ROW}[{REPLICAS_COLUMN}])"
        return f"int({ROW}[{FIRST_VALUE_COLUMN + self.texts + number - _FIRST_NUMBER}])"

    def key(self, identity: Sequence[JSON]) -> str:
        """Return the identity of an element, as `key_of_element` computes it."""
        parts = [part if isinstance(part, str) else json.dumps(part) for part in identity]
        return self.text(_SEPARATOR.join(parts))


def quote(text: str) -> str:
    """Return a text as a CEL literal. JSON's escapes are a subset of those of CEL."""
    return json.dumps(text, ensure_ascii=False)


def find_member(value: str, name: str) -> str:
    """Return an expression of a member of a map, or of an optional map: an optional.

    cel-go checks the type of a selection at once. An index has overloads with type parameters, and the time that the
    checker takes grows with the square of the number of these in an expression.
    """
    is_selected = _IDENTIFIER.fullmatch(name) and name not in _LITERALS
    return f"{value}.?{name}" if is_selected else f"{value}[?{quote(name)}]"


def escape(token: str) -> str:
    """Return a member's name as a token of a JSON pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def key_of_element(element: str, schema: MergeSchema) -> str:
    """Return the expression of an element's identity, a text."""
    parts = []
    for member, default in schema.identity:
        missing = json.dumps("" if default is None else default)
        found = f"{find_member(element, member)}.orValue(dyn({missing}))"
        parts.append(found if isinstance(default, str) or len(schema.identity) == 1 else f"string({found})")
    return f' + "{_SEPARATOR}" + '.join(parts)


def join(parts: Sequence[str], operator: str, *, empty: str) -> str:
    """Join expressions by an associative operator as a balanced tree, because the parser limits the depth."""
    if len(parts) <= 2:
        return f" {operator} ".join(parts) if parts else empty
    middle = len(parts) // 2
    left, right = (join(half, operator, empty=empty) for half in (parts[:middle], parts[middle:]))
    return f"({left}) {operator} ({right})" if operator != "+" else f"({left} + {right})"


def join_all(conditions: Sequence[str]) -> str:
    """Return the conjunction of conditions."""
    return join([f"({one})" for one in conditions], "&&", empty="true")


_REFERENCE: Final = re.compile(r"variables\.(f[0-9]+v[0-9]+)\b")
MAX_LENGTH: Final = 4_000
"""Characters of an expression that variables become a part of.

The time in which cel-go checks the types of an expression grows with the square of its length: 7 ms for 2,000
characters, 11 s for 95,000.
"""
_MAX_COPIED: Final = 300
"""Characters that the copies of an expression may add."""
_MAX_REPEATED: Final = 100
"""Characters of an expression that a macro may evaluate for each element."""
_MACRO: Final = re.compile(r"\.(?:map|filter|exists|all)\(")


class Node(NamedTuple):
    """A map in the workload that a policy reads and changes."""

    value: str
    """An expression of the map, ``{}`` if the workload lacks it."""
    exists: str
    """The condition that the workload has it."""
    path: str
    """An expression of its JSON pointer."""
    tokens: tuple[str, ...] = ()
    """The names of the members on the way to it, ``*`` for an element of a list."""
    found: str = ""
    """An expression of the map, an optional; empty for the workload and for an element of a list."""

    def optional(self, name: str) -> str:
        """Return an expression of a member, an optional."""
        return find_member(self.found or self.value, name)

    def has(self, name: str) -> str:
        """Return the condition that the map has a member."""
        return f"{self.optional(name)}.hasValue()" if self.found else f"{quote(name)} in {self.value}"

    def pointer(self, name: str) -> str:
        """Return an expression of the JSON pointer of a member."""
        if self.path.endswith('"'):
            return f'{self.path[:-1]}/{escape(quote(name)[1:-1])}"'
        return f"{self.path} + {quote('/' + escape(name))}"


class Variables:
    """The variables of a policy, each of which kube-apiserver evaluates at most once for a request."""

    def __init__(self, prefix: str) -> None:
        """Start without variables; ``prefix`` keeps the names of several forms apart."""
        self._prefix: Final = prefix
        self._names: Final[dict[str, str]] = {}
        self._lengths: Final[dict[str, int]] = {}

    def let(self, expression: str) -> str:
        """Store an expression, and return the expression that reads it."""
        name = self._names.get(expression)
        if name is None:
            name = self._names[expression] = f"{self._prefix}{len(self._names)}"
            self._lengths[name] = min(self._measure(expression), _MAX_COPIED)
        return f"variables.{name}"

    def join(self, parts: Sequence[str], operator: str, *, empty: str) -> str:
        """Join expressions by an associative operator. Parts of a long result become variables."""
        groups: list[list[str]] = []
        room = 0
        for part in parts:
            length = self._measure(part)
            if length > room or not groups:
                groups.append([])
                room = MAX_LENGTH
            groups[-1].append(part)
            room -= length
        return join([self.let(join(some, operator, empty=empty)) for some in groups], operator, empty=empty)

    def _measure(self, text: str) -> int:
        """Return the length that an expression will have with the variables that become a part of it."""
        return len(text) + sum(self._lengths[name] for name in _REFERENCE.findall(text))

    def close(self, result: str) -> tuple[list[dict[str, str]], str]:
        """Return the members of ``spec.variables``, each of which reads only earlier ones, and the result.

        A variable takes 50 KiB of each kube-apiserver, and reading it takes longer than most of these expressions. So
        it is a part of its readers if its own expression is cheap, or if it has one reader.
        """
        expressions = {name: one for one, name in self._names.items()} | {"": result}
        readers: dict[str, Counter[str]] = {"": Counter()}
        for reader in reversed([*expressions]):
            if reader not in readers:
                del expressions[reader]
                continue
            for name in _REFERENCE.findall(expressions[reader]):
                readers.setdefault(name, Counter())[reader] += 1
        for name in [*expressions][:-1]:
            used = readers[name]
            if not _is_inlined(expressions[name], used, expressions):
                continue
            inlined = f"({expressions.pop(name)})".replace("\\", r"\\")
            for reader in used:
                expressions[reader] = re.sub(rf"variables\.{name}\b", inlined, expressions[reader])
        made = expressions.pop("")
        return [{"name": name, "expression": one} for name, one in expressions.items()], made

    def child(self, node: Node, name: str) -> Node:
        """Return the place of a map in another one."""
        found = node.optional(name)
        value = self.let(f"{found}.orValue(dyn({{}}))")
        return Node(value, self.let(node.has(name)), node.pointer(name), (*node.tokens, name), found)


def _is_inlined(expression: str, used: Counter[str], expressions: Mapping[str, str]) -> bool:
    """Return whether a variable becomes a part of its readers."""
    is_cheap = not _MACRO.search(expression)
    if not is_cheap and used.total() > 1:
        return False
    if any(_MACRO.search(expressions[reader]) for reader in used) and (not is_cheap or len(expression) > _MAX_REPEATED):
        return False
    if any(len(expressions[reader]) + times * len(expression) > MAX_LENGTH for reader, times in used.items()):
        return False
    return (used.total() - 1) * len(expression) <= _MAX_COPIED


def patch(operation: str, path: str, value: str = "") -> str:
    """Return a JSON patch operation, as a map: only a mutation itself knows the type JSONPatch."""
    rest = f', "value": dyn({value})' if value else ""
    return f'{{"op": dyn("{operation}"), "path": dyn({path}){rest}}}'
