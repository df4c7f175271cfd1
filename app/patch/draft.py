"""A document that is changed without changing the one it was made from."""

from collections.abc import Callable
from typing import Final

from app.model.json import JSON

Step = Callable[[JSON, str], JSON]


class Draft:
    """A copy-on-write view of a document.

    Only containers on the way to a change are copied, each once; everything else stays shared with the original.
    """

    __slots__ = ("_owned", "root")

    def __init__(self, document: JSON) -> None:
        self.root = document
        # Containers made here, kept by reference: an id alone may be reused once its container is gone.
        self._owned: Final[dict[int, JSON]] = {}

    def parent(self, tokens: tuple[str, ...], step: Step) -> JSON:
        """Return the container that holds the last of ``tokens``, ready to be changed.

        Args:
            tokens: The way to the change; at least one.
            step: Looks a token up in a container, raising what the dialect raises.
        """
        node = self.root = self._own(self.root)
        owned = self._owned
        for token in tokens[:-1]:
            # The usual case without a call: this is the inner loop of every patch.
            child = node.get(token) if type(node) is dict else None
            if child is None:
                child = step(node, token)
            if id(child) not in owned:
                child = self._own(child)
                node[token if type(node) is dict else int(token)] = child
            node = child
        return node

    def _own(self, node: JSON) -> JSON:
        if id(node) in self._owned or not isinstance(node, (dict, list)):
            return node
        copy: JSON = node.copy()
        self._owned[id(copy)] = copy
        return copy


def clone(value: JSON) -> JSON:
    """Return a copy of ``value`` that shares no container with it."""
    if isinstance(value, dict):
        return {name: clone(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [clone(inner) for inner in value]
    return value
