"""JSON Pointer (RFC 6901), a copy-on-write view of a document, and the errors and limits of operations on it.

The limits count work instead of time, so every machine gives the same verdict.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fleethook.model.json import JSON


class PatchError(ValueError):
    """A JSON Patch is malformed, exceeds a limit, or does not apply to its document.

    Attributes:
        index: Index of the operation in the patch, None if the error concerns the patch itself.
        op: The operation's name.
        path: The operation's path.
        reason: The problem, without the operation.
    """

    def __init__(self, reason: str, *, index: int | None = None, op: str = "", path: str = "") -> None:
        place = "patch" if index is None else f"operation {index} ({op} {path})"
        super().__init__(f"{place}: {reason}")
        self.index = index
        self.op = op
        self.path = path
        self.reason = reason


class StrategicMergeError(ValueError):
    """A strategic merge patch is malformed or does not apply; the text starts with a JSON pointer.

    Attributes:
        path: The JSON pointer of the value in the patch.
        reason: The problem, without the pointer.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or '/'}: {reason}")
        self.path = path
        self.reason = reason


class OperationError(Exception):
    """One operation does not apply. Never leaves this package: callers get a `PatchError`."""


class PatchLimits(NamedTuple):
    """Limits for one patch of a foreign webhook."""

    operations: int = 10_000
    """kube-apiserver's limit for PATCH requests (endpoints/handlers/patch.go: maxJSONPatchOperations)."""
    size: int = 2 * 1024 * 1024
    """Maximum bytes of the JSON text. etcd stores at most 1.5 MiB, so a patch that replaces an object fits."""
    moved: int = 100_000_000
    """Maximum list elements that insertions and removals shift. 10,000 insertions at the front of a list of 5,000
    elements shift about 100,000,000 and take about 0.1 s."""

    def check_size(self, size: int) -> None:
        """Raise PatchError if the text of a patch has too many bytes."""
        if size > self.size:
            raise PatchError(f"its text has {size} bytes, and the limit is {self.size} bytes")

    def check_operations(self, count: int) -> None:
        """Raise PatchError if a patch has too many operations."""
        if count > self.operations:
            raise PatchError(f"it has {count} operations, and the limit is {self.operations} operations")


LIMITS: Final = PatchLimits()


class MoveCounter:
    """Counts the list elements that the operations of one patch shift."""

    __slots__ = ("_limit", "_moved")

    def __init__(self, limit: int | None) -> None:
        """Start at zero; None means no limit."""
        self._limit: Final = limit
        self._moved = 0

    def add(self, elements: int) -> None:
        """Count elements before an operation shifts them; raises OperationError beyond the limit."""
        self._moved += elements
        if self._limit is not None and self._moved > self._limit:
            raise OperationError(
                f"the patch moves more than {self._limit} elements of lists, which is the limit: add to the end of the "
                "list ('-') or replace the list"
            )


Tokens = tuple[str, ...]

_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
# RFC 6901 section 4: no leading zeros, no sign, ASCII digits only. No array in memory has an index of more than nine
# digits, and int() of many digits is slow.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def parse(pointer: str) -> Tokens:
    """Return the reference tokens of ``pointer``, unescaped; ``""`` is the whole document.

    Raises:
        ValueError: The leading slash is missing, or a ``~`` is not part of ``~0`` or ``~1``.
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer: it does not start with '/'")
    if "~" not in pointer:
        return tuple(pointer[1:].split("/"))
    if _BAD_ESCAPE.search(pointer):
        raise ValueError(f"{pointer!r} is not a JSON pointer: '~' must be written ~0, and '/' in a name ~1")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def escape(token: str) -> str:
    """Return ``token`` escaped for use in a pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def format_tokens(tokens: Sequence[str]) -> str:
    """Return the pointer that `parse` turns into ``tokens``."""
    return "".join(f"/{escape(token)}" for token in tokens)


def parse_index(token: str) -> int:
    """Return the array index that ``token`` writes; raises OperationError if it is not an index."""
    if not _INDEX.fullmatch(token):
        raise OperationError(f"{token!r} is not an array index")
    return int(token)


def locate(node: JSON, token: str) -> str | int:
    """Return the key or index of ``token`` in ``node``; raises OperationError if it does not exist."""
    if isinstance(node, dict):
        if token not in node:
            raise OperationError(f"member {token!r} does not exist")
        return token
    if isinstance(node, list):
        index = parse_index(token)
        if index >= len(node):
            raise OperationError(f"index {index} is out of range: the array has {len(node)} elements")
        return index
    raise OperationError(f"no member {token!r}: its parent is neither object nor array")


def resolve(document: JSON, pointer: str) -> JSON:
    """Return the value at ``pointer`` in ``document``.

    Raises:
        ValueError: ``pointer`` is malformed.
        LookupError: ``document`` has no value at ``pointer``.
    """
    try:
        for token in parse(pointer):
            document = document[locate(document, token)]
    except OperationError as refusal:
        raise LookupError(f"{pointer}: {refusal}") from None
    return document


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
