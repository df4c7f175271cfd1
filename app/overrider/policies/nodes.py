"""The places of a workload in CEL, and the variables of a policy."""

from typing import Final, NamedTuple

from app.overrider.policies.cel import escape, quote


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

    def named(self) -> list[dict[str, str]]:
        """Return the members of ``spec.variables``; each reads only earlier ones."""
        return [{"name": name, "expression": expression} for expression, name in self._names.items()]

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
