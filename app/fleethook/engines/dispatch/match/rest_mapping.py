"""The resources and subresources that take objects of a kind, and the operations on them that reach admission."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.cluster.store import Store, StoreView
from fleethook.engines.dispatch.match.equivalent_resources import SCALE, list_builtins
from fleethook.engines.dispatch.owner.schema_owner import BINDINGS_BY_RESOURCE
from fleethook.model.gvk import DEFINITION, GroupKind, GroupVersionKind, GroupVersionResource, guess_plural
from fleethook.model.json import JSON, as_object
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

    A CRD or a bound APIResourceSchema names its plural. The plural of another kind is guessed: as definitions of other
    logical clusters name it, or as apimachinery's UnsafeGuessKindToResource does (pkg/api/meta/restmapper.go).
    """
    specs = list(_list_served(store, cluster))
    found = [
        *(Destination(_name_resource(spec, kind.version)) for spec in specs if _defines(spec, kind.group_kind)),
        *(
            Destination(one.resource if subresource else one.resource._replace(version=kind.version), subresource)
            for subresource, one in list_builtins(kind.group_kind)
        ),
        *(one for spec in specs if kind.group_kind == SCALE.group_kind for one in _list_scalable(spec)),
    ]
    if found:
        return KindMapping(tuple({str(one): one for one in reversed(found)}.values())[::-1], is_known=True)
    elsewhere = next((spec for spec in _list_all(store) if _defines(spec, kind.group_kind)), None)
    if elsewhere is not None:
        return KindMapping((Destination(_name_resource(elsewhere, kind.version)),), is_known=False)
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


def _list_scalable(spec: _Spec) -> Iterator[Destination]:
    """Yield the scale subresource of a custom resource in each version that has it."""
    versions = spec.get("versions")
    for version in map(as_object, versions if isinstance(versions, list) else ()):
        name = version.get("name")
        if isinstance(name, str) and version.get("served") and as_object(version.get("subresources")).get("scale"):
            yield Destination(_name_resource(spec, name), "scale")


def _list_served(store: StoreView, cluster: str) -> Iterator[_Spec]:
    """Yield the specs of the APIResourceSchemas that a cluster has bound, and of its CRDs."""
    for binding in store.each(cluster, API_BINDING):
        status = as_object(binding.get("status"))
        owner, bound = status.get("apiExportClusterName"), status.get("boundResources")
        for resource in bound if isinstance(bound, list) else ():
            name = as_object(as_object(resource).get("schema")).get("name")
            if isinstance(owner, str) and isinstance(name, str):
                yield as_object(as_object(store.get(owner, API_RESOURCE_SCHEMA, "", name)).get("spec"))
    for definition in store.each(cluster, DEFINITION):
        yield as_object(definition.get("spec"))


def _list_all(store: Store) -> Iterator[_Spec]:
    """Yield the specs of the CRDs and APIResourceSchemas of all logical clusters."""
    for kind in (DEFINITION, API_RESOURCE_SCHEMA):
        for key in sorted(store.keys(kind)):
            yield as_object(as_object(store.get(*key)).get("spec"))
