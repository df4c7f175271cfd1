"""A document that is changed without changing the one it was made from."""

import json
from collections.abc import Callable
from typing import Final

from app.model.json import JSON
from app.patch.errors import OperationError
from app.patch.limits import MoveCounter
from app.patch.pointer import Tokens

Locate = Callable[[JSON, str], str | int]
"""Returns the key or index that a token means in a container; raises what its dialect raises where there is none."""

# kube-apiserver's JSONPatchMaxCopyBytes: what the copies of one patch may add up to. Without it thirty operations that
# each copy the document into itself make 2^30 documents of one.
_MAX_COPIED_BYTES: Final = 3 * 1024 * 1024


class Draft:
    """A copy-on-write view of a document.

    Only containers on the way to a change are copied, each once; everything else stays shared with the original.
    A container made here is never inside one that was not, so whatever is not owned has nothing owned in it.
    """

    __slots__ = ("_copied", "_owned", "moves", "root")

    def __init__(self, document: JSON, *, max_moved: int | None = None) -> None:
        self.root = document
        # Insertions and removals are counted before they happen.
        self.moves: Final = MoveCounter(max_moved)
        # Containers made here, kept by reference: an id alone may be reused once its container is gone.
        self._owned: Final[dict[int, JSON]] = {}
        self._copied = 0

    def find(self, tokens: Tokens, locate: Locate) -> JSON:
        """Return what ``tokens`` name, to be looked at only."""
        node = self.root
        for token in tokens:
            # The usual case without a call: this is the inner loop of every patch.
            node = node[token if type(node) is dict and token in node else locate(node, token)]
        return node

    def container(self, tokens: Tokens, locate: Locate) -> JSON:
        """Return the container that ``tokens`` name, ready to be changed."""
        node = self.root = self._copy_once(self.root)
        for token in tokens:
            key = token if type(node) is dict and token in node else locate(node, token)
            child = node[key]
            if id(child) not in self._owned:
                child = node[key] = self._copy_once(child)
            node = child
        return node

    def share(self, value: JSON) -> JSON:
        """Return ``value`` for a second place in the document, where a change of the first does not reach it.

        Raises:
            OperationError: The copies of this draft add up to more than an apiserver allows.
        """
        # Counted as text, because shared branches cost nothing here and everything once they are written out.
        self._copied += len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        if self._copied > _MAX_COPIED_BYTES:
            raise OperationError(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {_MAX_COPIED_BYTES}"
            )
        return self._copy_owned(value)

    def _copy_once(self, node: JSON) -> JSON:
        if id(node) in self._owned or not isinstance(node, dict | list):
            return node
        return self._record_owned(node.copy())

    def _record_owned(self, made: JSON) -> JSON:
        self._owned[id(made)] = made
        return made

    def _copy_owned(self, value: JSON) -> JSON:
        if id(value) not in self._owned:
            return value
        if isinstance(value, dict):
            return self._record_owned({name: self._copy_owned(inner) for name, inner in value.items()})
        return self._record_owned([self._copy_owned(inner) for inner in value])
