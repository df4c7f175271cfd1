"""Maps a kind to the resources that take its objects, and chooses the request that a client sends with a manifest."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.cluster.store import Store, StoreView
from fleethook.engines.dispatch.match.equivalent_resources import has_subresource, list_builtins
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import BINDINGS_BY_RESOURCE, find_owner
from fleethook.model.gvk import DEFINITION, GroupKind, GroupVersionKind, GroupVersionResource, guess_plural
from fleethook.model.json import JSON, as_object, as_text, list_objects
from fleethook.model.kcp import API_BINDING, API_RESOURCE_SCHEMA

# tests/conformance/admission_requests.yaml has the requests that a kube-apiserver sends to admission.
_CREATED_ONLY: Final = frozenset(
    {
        ("", "bindings"), ("authentication.k8s.io", "selfsubjectreviews"), ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"), ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"), ("authorization.k8s.io", "subjectaccessreviews"),
    }
)  # fmt: skip
_READ_ONLY: Final = frozenset({("", "componentstatuses", ""), ("", "pods", "log")})
_CREATED_SUBRESOURCES: Final = frozenset({"binding", "eviction", "token"})
_CONNECTED_SUBRESOURCES: Final = frozenset({"attach", "exec", "portforward", "proxy"})

_Spec = Mapping[str, JSON]
"""The ``spec`` of a CRD or of an APIResourceSchema."""


class Destination(NamedTuple):
    """A resource or subresource that takes objects of a kind."""

    resource: GroupVersionResource
    subresource: str = ""

    def __str__(self) -> str:
        """Return the name as ``--resource`` takes it, such as ``deployments.apps/scale``."""
        name = ".".join(filter(None, (self.resource.resource, self.resource.group)))
        return f"{name}/{self.subresource}" if self.subresource else name


class KindMapping(NamedTuple):
    """The destinations of a kind.

    Attributes:
        destinations: At least one, each in one version; resources precede subresources.
        is_known: Whether a definition, a binding or the table of built-in resources names them. Otherwise the only one
            is a guess.
    """

    destinations: tuple[Destination, ...]
    is_known: bool


def map_kind(store: Store, *, cluster: str, kind: GroupVersionKind) -> KindMapping:
    """Return the resources and subresources of a logical cluster that take objects of a kind.

    A CRD or a bound APIResourceSchema names its plural. The plural of another kind is guessed as apimachinery's
    UnsafeGuessKindToResource does (pkg/api/meta/restmapper.go).
    """
    destinations = [
        *(
            Destination(_name_resource(spec, kind.version))
            for spec in _list_served(store, cluster)
            if _defines(spec, kind.group_kind)
        ),
        *(
            Destination(one.resource if subresource else one.resource._replace(version=kind.version), subresource)
            for subresource, one in list_builtins(kind.group_kind)
        ),
    ]
    if destinations:
        return KindMapping(tuple({str(one): one for one in reversed(destinations)}.values())[::-1], is_known=True)
    guess = guess_plural(kind.kind.lower())
    bound = bool(store.find(BINDINGS_BY_RESOURCE, cluster, (kind.group, guess)))
    return KindMapping((Destination(GroupVersionResource(kind.group, kind.version, guess)),), is_known=bound)


def list_operations(destination: Destination) -> tuple[str, ...]:
    """Return the operations on a built-in or custom resource, or its subresource, that reach admission."""
    resource, subresource = destination
    if (resource.group, resource.resource, subresource) in _READ_ONLY:
        return ()
    if not subresource:
        created_only = (resource.group, resource.resource) in _CREATED_ONLY
        return ("CREATE",) if created_only else ("CREATE", "UPDATE", "DELETE")
    if subresource in _CONNECTED_SUBRESOURCES:
        return ("CONNECT",)
    return ("CREATE",) if subresource in _CREATED_SUBRESOURCES else ("UPDATE",)


def needs_metadata(kind: GroupKind) -> bool:
    """Return whether objects of a kind are stored, so that a request needs their metadata.

    Reviews and the bodies of subresources, such as PodExecOptions, may have none.
    """
    places = list_builtins(kind)
    return not places or any(
        not subresource and (one.resource.group, one.resource.resource) not in _CREATED_ONLY
        for subresource, one in places
    )


def _defines(spec: _Spec, kind: GroupKind) -> bool:
    names = as_object(spec.get("names"))
    plural = names.get("plural")
    return (spec.get("group"), names.get("kind")) == kind and isinstance(plural, str) and plural != ""


def _name_resource(spec: _Spec, version: str) -> GroupVersionResource:
    return GroupVersionResource(str(spec.get("group")), version, str(as_object(spec.get("names")).get("plural")))


def _list_served(store: StoreView, cluster: str) -> Iterator[_Spec]:
    """Yield the specs of the APIResourceSchemas that a cluster has bound, and of its CRDs."""
    for binding in store.each(cluster, API_BINDING):
        status = as_object(binding.get("status"))
        owner = as_text(status.get("apiExportClusterName"))
        for resource in list_objects(status.get("boundResources")):
            name = as_text(as_object(resource.get("schema")).get("name"))
            yield as_object(as_object(store.get(owner, API_RESOURCE_SCHEMA, "", name)).get("spec"))
    for definition in store.each(cluster, DEFINITION):
        yield as_object(definition.get("spec"))


_VERSION: Final = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")


class DestinationError(ValueError):
    """No request can be made with a manifest; the text has the reason and the remedy."""


class ResourceName(NamedTuple):
    """A resource as users name it: ``[PLURAL[.VERSION][.GROUP]][/SUBRESOURCE]``; omitted parts are ``""``."""

    group: str
    plural: str
    version: str = ""
    subresource: str = ""

    def matches(self, destination: Destination) -> bool:
        """Return whether this names a resource or subresource. An omitted plural, group or version matches each one."""
        resource, subresource = destination
        return (
            self.subresource == subresource
            and self.plural in ("", resource.resource)
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


def choose_destination(store: Store, *, cluster: str, kind: GroupVersionKind, resource: str, operation: str) -> Chosen:
    """Choose resource, subresource and operation of a request.

    Args:
        store: Indexed by `fleethook.engines.dispatch.schema_owner_and_cluster_paths.INDEXES`.
        cluster: The logical cluster.
        kind: The kind of the manifest.
        resource: The resource that the user names, ``""`` for that of the kind.
        operation: The operation that the user names, ``""`` for the usual one.

    Raises:
        DestinationError: The kind is sent to several resources, or not to the one that the user names.
    """
    mapping = map_kind(store, cluster=cluster, kind=kind)
    notes: list[str] = []
    if resource:
        chosen = _choose_named(mapping, kind, parse_resource(resource))
    else:
        chosen, *others = mapping.destinations
        if others:
            text = f"{kind.kind} is sent to {_list_names(mapping.destinations)}"
            raise DestinationError(f"{text}: name one, as in --resource {others[-1]}")
    if not mapping.is_known and not parse_resource(resource).plural:
        notes.append(f"no CRD or APIBinding defines {kind.kind}; assuming resource {chosen.resource.resource}")
    operations = _list_operations(store, cluster, chosen)
    if operations is None:
        return Chosen(chosen, operation or "CREATE", tuple(notes))
    operation = operation or (*operations, "CREATE")[0]
    if operation not in operations:
        only = f", only {' and '.join(operations)}" if operations else ""
        notes.append(f"no apiserver sends {operation} of {chosen} to admission{only}")
    return Chosen(chosen, operation, tuple(notes))


def _choose_named(mapping: KindMapping, kind: GroupVersionKind, wanted: ResourceName) -> Destination:
    """Return the destination that the user names."""
    own = [
        destination._replace(subresource=wanted.subresource)
        for destination in mapping.destinations
        if not destination.subresource
    ]
    for one in (*mapping.destinations, *own):
        if wanted.matches(one):
            return one
    # A Scale is the body of subresources of custom resources, too.
    is_body = any(destination.subresource == wanted.subresource != "" for destination in mapping.destinations)
    if not wanted.plural or (mapping.is_known and not is_body):
        named = f"{wanted.plural}/{wanted.subresource}" if wanted.subresource else wanted.plural
        raise DestinationError(f"{kind.kind} is sent to {_list_names(mapping.destinations)}, not to {named}")
    version = wanted.version or ("v1" if is_body else kind.version)
    group = wanted.group or ("" if is_body else kind.group)
    return Destination(GroupVersionResource(group, version, wanted.plural), wanted.subresource)


def _list_names(destinations: tuple[Destination, ...]) -> str:
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
