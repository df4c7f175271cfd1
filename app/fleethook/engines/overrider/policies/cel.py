"""Writes values, member accesses and lists as CEL expressions.

The values of node pools are marks in a plan (`fleethook.engines.overrider.entries.value_marks`). An expression has a
variable in the place of each mark, so pools that share a plan share the expression, too.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

from fleethook.engines.overrider.entries.value_marks import POOL_MARK, REPLICAS_MARK, SMALLEST_MARK, number_mark
from fleethook.model.json import JSON
from fleethook.model.merge_keys import MergeSchema

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
        self._texts: Final = texts

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
        return f"int({ROW}[{FIRST_VALUE_COLUMN + self._texts + number - _FIRST_NUMBER}])"

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


Namer = Callable[[str], str]
"""Stores an expression as a variable, and returns the expression that reads it."""
