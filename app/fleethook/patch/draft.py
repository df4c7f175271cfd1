"""A copy-on-write view of a document, to which patch operations are applied."""

import json
from collections.abc import Callable
from typing import Final

from fleethook.model.json import JSON
from fleethook.patch.limits import MoveCounter, OperationError
from fleethook.patch.pointer import Tokens

Locate = Callable[[JSON, str], str | int]
"""Returns the key or index of a token in a container, or raises the dialect's error if the container has none."""

# kube-apiserver's JSONPatchMaxCopyBytes: the limit for all copies of one patch together. Without a limit, thirty
# operations that each copy the document into itself enlarge it 2^30 times.
_MAX_COPIED_BYTES: Final = 3 * 1024 * 1024


class Draft:
    """A copy-on-write view of a document.

    A draft copies only the containers on the path to a change, each of them once, and shares the rest with the
    original. A copied container is never inside a shared one, so a shared container needs no search for copied ones.
    """

    __slots__ = ("_copied", "_owned", "moves", "root")

    def __init__(self, document: JSON, *, max_moved: int | None = None) -> None:
        self.root = document
        # Appliers count insertions and removals before they make them.
        self.moves: Final = MoveCounter(max_moved)
        # Copied containers by id, with a reference: Python reuses the id of an object that was freed.
        self._owned: Final[dict[int, JSON]] = {}
        self._copied = 0

    def find(self, tokens: Tokens, locate: Locate) -> JSON:
        """Return the value at ``tokens``, which the caller must not change."""
        node = self.root
        for token in tokens:
            # This is the inner loop of every patch: member names of objects need no call.
            node = node[token if type(node) is dict and token in node else locate(node, token)]
        return node

    def container(self, tokens: Tokens, locate: Locate) -> JSON:
        """Return the container at ``tokens``, copied so that the caller may change it."""
        node = self.root = self._copy_once(self.root)
        for token in tokens:
            key = token if type(node) is dict and token in node else locate(node, token)
            child = node[key]
            if id(child) not in self._owned:
                child = node[key] = self._copy_once(child)
            node = child
        return node

    def share(self, value: JSON) -> JSON:
        """Return ``value`` for a second path of the document, so that later changes of one leave the other as it is.

        Raises:
            OperationError: All copies of this draft together exceed kube-apiserver's limit.
        """
        # Count the length as text: shared branches take no memory here, but each of them is written out later.
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
