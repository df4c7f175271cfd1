"""The other objects that a rule reads: its parameter ``store``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fleethook.admission.members import view
from fleethook.model.gvk import GroupKind, gvk_of, parse_api_version
from fleethook.model.json import JSONObject

Lookup = Callable[[GroupKind], Iterable[Mapping[str, Any]]]
"""Returns all objects of a kind in one cluster."""


class Objects:
    """The objects of the kinds that a rule declares with ``follows``. Changes to them have no effect."""

    def __init__(self, lookup: Lookup, followed: frozenset[GroupKind]) -> None:
        """Prepare; ``followed`` are the declared kinds."""
        self._lookup = lookup
        self._followed = followed

    def each(self, api_version: str, kind: str, *, namespace: str | None = None) -> Iterator[Any]:
        """Yield copies of the objects of a kind, of all namespaces if ``namespace`` is None; raises LookupError."""
        for document in self._list(api_version, kind, namespace):
            yield view(dict(document))

    def get(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> Any:
        """Return a copy of an object, None if it does not exist; raises LookupError."""
        found = self._list(api_version, kind, namespace)
        return next((view(dict(one)) for one in found if one["metadata"]["name"] == name), None)

    def _list(self, api_version: str, kind: str, namespace: str | None) -> Iterator[Mapping[str, Any]]:
        group_kind = GroupKind(parse_api_version(api_version)[0], kind)
        if group_kind not in self._followed:
            raise LookupError(
                f"the store has no {kind} of {api_version}: declare it with follows=({api_version!r}, {kind!r})"
            )
        for document in self._lookup(group_kind):
            if namespace is None or document["metadata"].get("namespace", "") == namespace:
                yield document


def find_among(documents: Iterable[JSONObject]) -> Lookup:
    """Return the lookup of given objects, for tests."""
    listed = list(documents)
    return lambda kind: (one for one in listed if gvk_of(one).group_kind == kind)
