"""The places of a workload in CEL, and the variables of a policy."""

import re
from typing import Final, NamedTuple

from app.overrider.policies.cel import escape, quote

_REFERENCE: Final = re.compile(r"variables\.(f[0-9]+v[0-9]+)\b")
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

    def optional(self, name: str) -> str:
        """Return an expression of a member, an optional."""
        return f"{self.value}[?{quote(name)}]"

    def has(self, name: str) -> str:
        """Return the condition that the map has a member."""
        return f"{quote(name)} in {self.value}"

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

    def let(self, expression: str) -> str:
        """Store an expression, and return the expression that reads it."""
        name = self._names.setdefault(expression, f"{self._prefix}{len(self._names)}")
        return f"variables.{name}"

    def close(self, result: str) -> tuple[list[dict[str, str]], str]:
        """Return the members of ``spec.variables``, each of which reads only earlier ones, and the result.

        A variable that is read once becomes a part of its reader: to look up a variable takes longer than most of these
        expressions. Macros read a variable for each element, so they keep it.
        """
        readers: dict[str, list[str]] = {}
        for reader, text in [*((name, one) for one, name in self._names.items()), ("", result)]:
            for name in _REFERENCE.findall(text):
                readers.setdefault(name, []).append(reader)
        expressions = {name: one for one, name in self._names.items()} | {"": result}
        for name in [*expressions]:
            used = readers.get(name, [])
            if name and len(used) == 1 and not _MACRO.search(expressions[used[0]]):
                inlined = f"({expressions.pop(name)})"
                escaped = inlined.replace("\\", r"\\")
                expressions[used[0]] = re.sub(rf"variables\.{name}\b", escaped, expressions[used[0]])
                readers = {key: [used[0] if one == name else one for one in ones] for key, ones in readers.items()}
        made = expressions.pop("")
        return [{"name": name, "expression": one} for name, one in expressions.items() if name in readers], made

    def child(self, node: Node, name: str) -> Node:
        """Return the place of a map in another one."""
        exists = self.let(f"{node.exists} && {node.has(name)}" if node.exists != "true" else node.has(name))
        return Node(
            self.let(f"{node.optional(name)}.orValue(dyn({{}}))"), exists, node.pointer(name), (*node.tokens, name)
        )


def patch(operation: str, path: str, value: str = "") -> str:
    """Return a JSON patch operation."""
    rest = f", value: {value}" if value else ""
    return f'JSONPatch{{op: "{operation}", path: {path}{rest}}}'
