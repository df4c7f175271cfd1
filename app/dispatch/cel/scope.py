"""What expressions see of one request."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from app.dispatch.cel.access import AccessDecisions
from app.dispatch.cel.elements import ANY
from app.dispatch.cel.environment import evaluating
from app.dispatch.cel.library.authorizer import authorizer_of, request_resource_of
from app.dispatch.cel.reads import Path
from app.dispatch.cel.weights import weight
from app.model.json import JSON, JSONObject

# k8s.io/apiserver/pkg/admission/plugin/cel/compile.go: an AdmissionRequest without uid, object and oldObject.
_MEMBERS: Final = (
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "dryRun",
    "options",
)
# These have `omitempty` in k8s.io/api/admission/v1: what is empty is not there, and to read it is an error.
_OMITTED_EMPTY: Final = frozenset({"subResource", "requestSubResource", "name", "namespace"})

# cel-cpp follows values by recursion: 20,000 levels overflow an 8 MiB stack. No document of Kubernetes is this deep.
_DEEPEST: Final = 500
_SMALLEST_INT: Final = -(2**63)
_LARGEST_INT: Final = 2**63 - 1


class ValueOutOfRangeError(ValueError):
    """A JSON value that CEL has no value for."""


class Scope:
    """The variables of one request, bound once for all the expressions that read the same members of them.

    Args:
        object_: the object as the webhook gets it, None if there is none.
        old_object: the object as it was, None if there is none.
        request: the AdmissionRequest. Only the members that expressions may see are read.
        access: the answers to access checks; None if there is nobody to ask, so that there is no ``authorizer``.
    """

    def __init__(
        self, *, object_: JSON, old_object: JSON, request: JSONObject, access: AccessDecisions | None = None
    ) -> None:
        self.access: Final = access
        self._objects: Final = {"object": object_, "oldObject": old_object}
        self._request: Final = request
        self._bound: Final[dict[frozenset[Path], Any]] = {}
        self._weights: Final[dict[Path, int]] = {}

    def bound(self, paths: frozenset[Path]) -> Any:
        """Return cel-cpp's activation for an expression that reads ``paths``.

        To convert a value takes cel-cpp about 35 ms for each MiB, and it converts whole variables: so variables have
        the members that are read, and nothing else.

        Raises:
            ValueOutOfRangeError: a value is too deep, or an integer is too large, for CEL.
        """
        paths = frozenset(path for path in paths if path[0] in self._objects)
        if paths not in self._bound:
            variables = {name: _projected(value, _below(paths, name)) for name, value in self._objects.items()}
            for value in variables.values():
                _check(value)
            try:
                self._bound[paths] = evaluating().Activation({**variables, **self._others})
            except UnicodeEncodeError:
                raise ValueOutOfRangeError("a text is not valid UTF-8") from None
        return self._bound[paths]

    def weight(self, path: Path) -> int:
        """Return the weight of a value of the request by its path: see `weights`. A value that is absent has none."""
        if path not in self._weights:
            known = self._objects if path[0] in self._objects else {"request": self._request}
            self._weights[path] = _weight_of(known, path)
        return self._weights[path]

    @cached_property
    def _others(self) -> dict[str, Any]:
        request = {
            member: self._request[member]
            for member in _MEMBERS
            if member in self._request and not (member in _OMITTED_EMPTY and self._request[member] == "")
        }
        _check(request)
        others = {"request": request, "namespaceObject": None}
        if self.access is None:
            return others
        return {
            **others,
            "authorizer": authorizer_of(self._request.get("userInfo")),
            "authorizer.requestResource": request_resource_of(self._request),
        }


def _weight_of(value: Any, path: Path) -> int:
    if not path:
        return weight(value)
    if path[0] != ANY:
        return _weight_of(value.get(path[0]), path[1:]) if isinstance(value, dict) else 0
    if isinstance(value, dict):
        # A loop over a map reads its keys, or keys and values.
        return weight(value) if len(path) == 1 else sum(_weight_of(member, path[1:]) for member in value.values())
    return sum(_weight_of(element, path[1:]) for element in value) if isinstance(value, list) else 0


def _below(paths: frozenset[Path], name: str) -> list[Path]:
    return [path[1:] for path in paths if path[0] == name]


def _projected(value: JSON, paths: list[Path]) -> JSON:
    """Return ``value`` with those of its members that ``paths`` lead to."""
    if not isinstance(value, dict) or () in paths:
        return value
    wanted: dict[str, list[Path]] = {}
    for member, *rest in paths:
        wanted.setdefault(member, []).append(tuple(rest))
    return {member: _projected(value[member], below) for member, below in wanted.items() if member in value}


def _check(value: JSON) -> None:
    """Raise what keeps a value from being one of CEL."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        members = [member for node in level for member in _members(node)]
        for member in members:
            if type(member) is int and not _SMALLEST_INT <= member <= _LARGEST_INT:
                raise ValueOutOfRangeError(
                    f"integer out of range: {member if abs(member) < 10**30 else 'more than 30 digits'}"
                )
        level = [member for member in members if isinstance(member, dict | list)]
        if not level:
            return
    raise ValueOutOfRangeError(f"a value is nested deeper than {_DEEPEST} levels")


def _members(node: Any) -> Any:
    if isinstance(node, Mapping):
        return node.values()
    return node if isinstance(node, list) else ()
