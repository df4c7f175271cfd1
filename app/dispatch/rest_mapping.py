"""The resource of a kind in a logical cluster, as Kubernetes' RESTMapper finds it."""

from collections.abc import Iterator, Mapping

from app.dispatch.equivalent_resources import DEFINITION, is_namespaced
from app.dispatch.schema_owner import BINDINGS_BY_RESOURCE
from app.model.gvk import GroupVersionKind, GroupVersionResource
from app.model.json import JSON, as_object
from app.model.kcp import API_BINDING, API_RESOURCE_SCHEMA
from app.store import StoreView


def find_resource(store: StoreView, *, cluster: str, kind: GroupVersionKind) -> tuple[GroupVersionResource, bool]:
    """Return the resource of a kind in a logical cluster, and whether it is known rather than guessed.

    A CRD or a bound APIResourceSchema names its plural. For other kinds, the plural is guessed as by apimachinery's
    UnsafeGuessKindToResource (pkg/api/meta/restmapper.go), which is right for all built-in kinds.
    """
    for spec in _definitions(store, cluster):
        names = as_object(spec.get("names"))
        plural = names.get("plural")
        if spec.get("group") == kind.group and names.get("kind") == kind.kind and isinstance(plural, str) and plural:
            return GroupVersionResource(kind.group, kind.version, plural), True
    guess = guess_plural(kind.kind.lower())
    known = is_namespaced(store, cluster=cluster, group=kind.group, resource=guess) is not None
    bound = bool(store.find(BINDINGS_BY_RESOURCE, cluster, (kind.group, guess)))
    return GroupVersionResource(kind.group, kind.version, guess), known or bound


def _definitions(store: StoreView, cluster: str) -> Iterator[Mapping[str, JSON]]:
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


def guess_plural(singular: str) -> str:
    """Return the plural that apimachinery guesses for a kind in lower case."""
    if singular.endswith("endpoints"):
        return singular
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
