"""Chooses the resource, subresource and operation of a request that a client would send with a manifest."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.match.equivalent_resources import SCALE, has_subresource
from fleethook.engines.dispatch.match.rest_mapping import Destination, KindMapping, list_operations, map_kind
from fleethook.engines.dispatch.owner.schema_owner import find_owner
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource

_VERSION: Final = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")

# apimachinery registers these in each group (pkg/apis/meta/v1/register.go: AddToGroupVersion).
_REQUEST_BODIES: Final = {
    "DeleteOptions": "DELETE", "CreateOptions": "CREATE", "UpdateOptions": "UPDATE", "PatchOptions": "UPDATE",
}  # fmt: skip


class DestinationError(ValueError):
    """No request can be made with a manifest; the text has the reason and the remedy."""


class ResourceName(NamedTuple):
    """A resource as users name it: ``PLURAL[.VERSION][.GROUP][/SUBRESOURCE]``; omitted parts are ``""``."""

    group: str
    plural: str
    version: str = ""
    subresource: str = ""

    def matches(self, destination: Destination) -> bool:
        """Return whether this names a resource or subresource. An omitted group or version matches each one."""
        resource, subresource = destination
        return (
            (self.plural, self.subresource) == (resource.resource, subresource)
            and self.group in ("", resource.group)
            and self.version in ("", resource.version)
        )


class Chosen(NamedTuple):
    """The destination of a request, its operation, and notes about guesses."""

    destination: Destination
    operation: str
    notes: tuple[str, ...] = ()


def parse_resource(text: str) -> ResourceName:
    """Return the parts of a name. A part that looks like a version, such as ``v1``, is one."""
    name, _, subresource = text.partition("/")
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    if _VERSION.fullmatch(version):
        return ResourceName(group, plural, version, subresource)
    return ResourceName(rest, plural, "", subresource)


def choose_destination(
    store: Store, *, cluster: str, kind: GroupVersionKind, wanted: str, subresource: str, operation: str
) -> Chosen:
    """Choose resource, subresource and operation of a request.

    Args:
        store: Indexed by `fleethook.engines.dispatch.owner.schema_owner.INDEXES`.
        cluster: The logical cluster.
        kind: The kind of the manifest.
        wanted: The resource that the user names, ``""`` for any.
        subresource: The subresource that the user names, ``""`` for any.
        operation: The operation that the user names, ``""`` for the usual one.

    Raises:
        DestinationError: The kind is sent to several resources, or not to the one that the user names.
    """
    mapping = map_kind(store, cluster=cluster, kind=kind)
    if not mapping.is_known and kind.kind in _REQUEST_BODIES:
        raise DestinationError(
            f"{kind.kind} is the body of a request and no object: give the object with "
            f"--operation {_REQUEST_BODIES[kind.kind]}"
        )
    notes: list[str] = []
    if wanted:
        chosen = _choose_named(mapping, kind, parse_resource(wanted), subresource)
    else:
        chosen, notes = _choose_usual(mapping, kind, subresource)
    operations = _list_operations(store, cluster, chosen)
    if operations is None:
        return Chosen(chosen, operation or "CREATE", tuple(notes))
    operation = operation or (*operations, "CREATE")[0]
    if operation not in operations:
        only = f", only {' and '.join(operations)}" if operations else ""
        notes.append(f"no apiserver sends {operation} of {chosen} to admission{only}")
    return Chosen(chosen, operation, tuple(notes))


def _choose_named(mapping: KindMapping, kind: GroupVersionKind, wanted: ResourceName, subresource: str) -> Destination:
    """Return the destination that the user names."""
    if subresource and wanted.subresource not in ("", subresource):
        raise DestinationError(f"--resource names the subresource {wanted.subresource}, --subresource {subresource}")
    wanted = wanted._replace(subresource=wanted.subresource or subresource)
    for one in (*mapping.destinations, *_list_subresources(mapping, wanted.subresource)):
        if wanted.matches(one):
            return one
    scales = kind.group_kind == SCALE.group_kind and wanted.subresource == SCALE.kind.lower()
    if mapping.is_known and not scales:
        raise DestinationError(f"{kind.kind} is sent to {_list_names(mapping.destinations)}, not to {wanted.plural}")
    # The input has no definition of the resource, so its version is that of the manifest, or the usual one.
    version = wanted.version or ("v1" if scales else kind.version)
    group = wanted.group or ("" if scales else kind.group)
    return Destination(GroupVersionResource(group, version, wanted.plural), wanted.subresource)


def _choose_usual(mapping: KindMapping, kind: GroupVersionKind, subresource: str) -> tuple[Destination, list[str]]:
    """Return the destination of a kind, and notes. A Binding is sent to pods/binding rather than to bindings."""
    candidates = mapping.destinations
    if subresource:
        candidates = tuple(one for one in candidates if one.subresource == subresource)
        candidates = candidates or tuple(_list_subresources(mapping, subresource))
    if not candidates:
        raise DestinationError(f"{kind.kind} is sent to {_list_names(mapping.destinations)}, not to */{subresource}")
    bodies = [one for one in candidates if one.subresource]
    if len(bodies) > 1:
        raise DestinationError(
            f"{kind.kind} is sent to {_list_names(bodies)}, or to the same subresource of a resource that the input "
            f"does not define: name one, as in --resource {bodies[0]}"
        )
    chosen = (bodies or candidates)[0]
    notes = []
    if len(candidates) > 1:
        notes.append(f"{kind.kind} is sent to {_list_names(candidates)}; assuming {chosen}")
    if not mapping.is_known:
        notes.append(f"no CRD or APIBinding defines {kind.kind}; assuming resource {chosen.resource.resource}")
    return chosen, notes


def _list_subresources(mapping: KindMapping, subresource: str) -> Iterator[Destination]:
    """Yield a subresource of each resource whose objects are of the kind."""
    if subresource:
        yield from (one._replace(subresource=subresource) for one in mapping.destinations if not one.subresource)


def _list_names(destinations: tuple[Destination, ...] | list[Destination]) -> str:
    return " or ".join(map(str, destinations))


def _list_operations(store: Store, cluster: str, chosen: Destination) -> tuple[str, ...] | None:
    """Return the operations that reach admission, None if the resource is unknown."""
    resource, subresource = chosen
    schema = find_owner(store, cluster=cluster, group=resource.group, resource=resource.resource).schema
    served = has_subresource(
        store, cluster=cluster, group=resource.group, resource=resource.resource, subresource=subresource, schema=schema
    )
    if not served:
        return None if served is None else ()
    return list_operations(chosen)
