"""The places of a workload in CEL, and the variables of a policy."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.policies.cel import escape, find_member, join, quote

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
        """Join expressions by an associative operator; if they are long, some of them together are a variable."""
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
