"""The parameter `store` of rules: the objects beside that of a review. No I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from reprlib import repr as shortened_repr
from typing import Any, Final, NamedTuple

from fleethook.admission.attribute_access_and_json import view
from fleethook.model.gvk import GroupKind, gvk_of, parse_api_version
from fleethook.model.kcp import cluster_of

EVERY: Final = "*"
"""All clusters."""


class Lookup(NamedTuple):
    """The objects beside that of a review, and its logical cluster of kcp.

    Attributes:
        find: Returns all objects of a kind in a cluster, or in `EVERY` cluster. It raises LookupError if the server may
            not read them in the cluster.
        cluster: The name of the cluster, ``""`` if only the annotation of the object has it.
        workspace: The path of the cluster, ``""`` if it is not known.
    """

    find: Callable[[GroupKind, str], Iterable[Mapping[str, Any]]]
    cluster: str = ""
    workspace: str = ""


class Objects:
    """The objects of the kinds that a rule declares with ``follows``. Changes to them have no effect."""

    def __init__(self, lookup: Any, followed: frozenset[GroupKind], cluster: str = "") -> None:
        """Prepare.

        Args:
            lookup: Finds the objects.
            followed: The declared kinds.
            cluster: The logical cluster of the review.
        """
        self._lookup: Final[Lookup] = lookup
        self._followed = followed
        self._cluster = cluster

    def each(
        self, api_version: str, kind: str, *, namespace: str | None = None, cluster: str | None = None
    ) -> Iterator[Any]:
        """Yield copies of the objects of a kind; raises LookupError.

        Args:
            api_version: The apiVersion.
            kind: The kind.
            namespace: The namespace; None for all.
            cluster: ``"*"`` for all logical clusters of a kcp that let the server read the kind; None for that of the
                review.
        """
        for document in self._list(api_version, kind, namespace, cluster):
            yield view(dict(document))

    def get(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> Any:
        """Return a copy of an object, None if it does not exist.

        Raises:
            LookupError: The rule does not follow the kind, or gives no namespace for a kind with namespaces.
        """
        for one in self._list(api_version, kind, None):
            found = one["metadata"].get("namespace", "")
            if found and not namespace:
                raise LookupError(f"the objects of {kind} have namespaces: give namespace=")
            if (one["metadata"]["name"], found) == (name, namespace):
                return view(dict(one))
        return None

    def _list(
        self, api_version: str, kind: str, namespace: str | None, cluster: str | None = None
    ) -> Iterator[Mapping[str, Any]]:
        group_kind = GroupKind(parse_api_version(api_version)[0], kind)
        if group_kind not in self._followed:
            raise LookupError(
                f"the store has no {kind} of {api_version}: declare it with follows=({api_version!r}, {kind!r})"
            )
        for document in self._lookup.find(group_kind, self._cluster if cluster is None else cluster):
            if namespace is None or document["metadata"].get("namespace", "") == namespace:
                yield document


def find_among(documents: Iterable[Any]) -> Lookup:
    """Return the lookup of given objects, for tests; raises ValueError for a value that is no object."""
    listed = list(documents)
    for one in listed:
        if not isinstance(one, dict) or not {"apiVersion", "kind", "metadata"} <= one.keys():
            raise ValueError(f"store: {shortened_repr(one)} is no object: give apiVersion, kind and metadata")

    def find(kind: GroupKind, cluster: str) -> Iterator[Any]:
        return (one for one in listed if gvk_of(one).group_kind == kind and cluster in (EVERY, cluster_of(one)))

    return Lookup(find)


FIND_NOTHING: Final = find_among(())
