"""The resources that fleethook reads from an apiserver, and the fields that it keeps of their objects."""

import re
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from fleethook.cluster.store import Index
from fleethook.model import crd_tarball, karmada, kcp, openyurt
from fleethook.model.admission import DesiredMeta
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.workload_schema.custom_resource_schema import read_defaults

_SPECIAL: Final = re.compile(r"[\\\\,=]")


class FieldSelection(NamedTuple):
    """Objects of a namespace: kube-apiserver selects them by fields, the store by an index."""

    by: Index
    key: Hashable
    """The index key of the selected objects."""
    namespace: str
    fields: tuple[tuple[str, str], ...]
    """Field paths and their values."""

    @property
    def selector(self) -> str:
        """The field selector, escaped as in k8s.io/apimachinery/pkg/fields/selector.go (EscapeValue)."""
        escaped = ((path, _SPECIAL.sub(lambda found: f"\\{found[0]}", value)) for path, value in self.fields)
        return ",".join(f"{path}={value}" for path, value in escaped)


Decode = Callable[[bytes | msgspec.Raw], JSONObject]


class WatchedResource(NamedTuple):
    """A resource of an apiserver in one version."""

    group: str
    version: str
    plural: str
    kind: str
    decode: Decode
    """Decodes one object for the store; raises msgspec.DecodeError."""
    selector: str = ""
    """A label selector, ``""`` for all objects."""
    only: tuple[str, str] | None = None
    """Namespace and name, if only one object is read."""
    older_versions: tuple[str, ...] = ()
    """The versions to read if the apiserver does not serve `version`, the best first."""
    decode_first: Decode | None = None
    """Decodes the objects of the first list, if it needs fewer fields; None for `decode`."""
    export: str = ""
    """The APIExport of kcp's root whose identity a list over all logical clusters names, ``""`` if it names none."""

    def in_versions(self) -> tuple["WatchedResource", ...]:
        """Return the resource in each version that fleethook can read, the best first."""
        return tuple(self._replace(version=one, older_versions=()) for one in (self.version, *self.older_versions))

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of the objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """The kind, without its version."""
        return GroupKind(self.group, self.kind)

    @property
    def name(self) -> str:
        """The name as in kubectl: ``yurtappsets.apps.openyurt.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_complete(self) -> bool:
        """Whether all objects are read with all fields."""
        return self.decode is decode_object and not self.selector and self.only is None

    @property
    def path(self) -> str:
        """The path that lists all namespaces, or the namespace of `only`."""
        if self.only is not None:
            return self.in_namespace(self.only[0])
        return f"{api_path(self.group, self.version)}/{self.plural}"

    @property
    def selectors(self) -> dict[str, str]:
        """The query that selects the objects to read."""
        found = {"labelSelector": self.selector} if self.selector else {}
        if self.only is not None:
            found["fieldSelector"] = f"metadata.name={self.only[1]}"
        return found

    def in_namespace(self, namespace: str, name: str = "") -> str:
        """Return the path of a namespace's objects, or of one of them; namespace ``""`` means cluster scope."""
        base = api_path(self.group, self.version)
        scope = f"{base}/namespaces/{namespace}/{self.plural}" if namespace else f"{base}/{self.plural}"
        return f"{scope}/{name}" if name else scope


def api_path(group: str, version: str) -> str:
    """Return the base path of an API group and version."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _keep(*names: str, **members: Any) -> Any:
    """Return the type of an object of which msgspec decodes these members only; those in ``names`` have any type."""
    return TypedDict("Kept", {**dict.fromkeys(names, Any), **members}, total=False)  # type: ignore[operator]


_METADATA: Final = _keep(
    "name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp", "labels", "annotations",
    "ownerReferences",
)  # fmt: skip
_decode_any: Final = msgspec.json.Decoder(dict[str, Any]).decode


def decode_object(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode an object without its managed fields, which no engine reads and which are half of its size."""
    document = _decode_any(text)
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return document


def _make_decoder(kept: Any) -> Decode:
    """Return a function that decodes the members of a TypedDict."""
    decode = msgspec.json.Decoder(kept).decode
    return lambda text: dict(decode(text))


# Of the managed fields, only the managers of the replicas: a message names the one that scales against an overrider.
_SCALERS: Final = list[_keep("manager", "subresource", "time", fieldsV1=_keep(**{"f:spec": _keep("f:replicas")}))]  # type: ignore[misc]
# A workload that is compared with its desired state; its status says nothing about it.
decode_without_status: Final = _make_decoder(
    _keep("apiVersion", "kind", "spec", metadata=_keep(*DesiredMeta.__annotations__, managedFields=_SCALERS))
)
decode_metadata: Final = _make_decoder(_keep(metadata=_METADATA))
"""Decodes the fields of a partial object (`fleethook.cluster.partial_and_stale_objects.PartialObject`)."""


def _openyurt(plural: str, kind: GroupKind, *versions: str) -> WatchedResource:
    return WatchedResource(openyurt.GROUP, versions[0], plural, kind.kind, decode_object, older_versions=versions[1:])


YURT_APP_OVERRIDERS: Final = _openyurt("yurtappoverriders", openyurt.YURT_APP_OVERRIDER, "v1alpha1")
# The conversion of OpenYurt v1.5 to v1.7 from v1beta1 to v1alpha1 drops tweaks and reorders pools (measured).
YURT_APP_SETS: Final = _openyurt(
    "yurtappsets", openyurt.YURT_APP_SET, *reversed(openyurt.SUBJECT_VERSIONS[openyurt.YURT_APP_SET])
)
YURT_APP_DAEMONS: Final = _openyurt("yurtappdaemons", openyurt.YURT_APP_DAEMON, "v1alpha1")
NODE_POOLS: Final = _openyurt("nodepools", openyurt.NODE_POOL, *reversed(openyurt.NODE_POOL_VERSIONS))


def _workloads(plural: str, kind: str) -> WatchedResource:
    # Detecting drift after a change takes the complete object. For the first list, the hash annotation suffices.
    return WatchedResource(
        "apps", "v1", plural, kind, decode_without_status, openyurt.POOL_NAME_LABEL, decode_first=decode_metadata
    )


DEPLOYMENTS: Final = _workloads("deployments", "Deployment")
STATEFUL_SETS: Final = _workloads("statefulsets", "StatefulSet")

WORKLOADS: Final = (DEPLOYMENTS, STATEFUL_SETS)
"""The workloads of node pools, which overriders render."""


# A version without printer columns; `decode_definition` decides about its schema.
_VERSION: Final = _keep("name", "served", "subresources", schema=msgspec.Raw)
_DEFINITION_SPEC: Final = _keep(
    "group",
    "scope",
    "conversion",
    names=_keep("kind", "plural", "categories"),
    versions=list[_VERSION],  # type: ignore[valid-type]
)
_decode_definition: Final = _make_decoder(_keep(metadata=_METADATA, spec=_DEFINITION_SPEC))


def decode_definition(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode the names and versions of the definition of a custom resource, or of kcp's APIResourceSchema.

    Schemas are the largest part of a definition, so only their defaults are kept. All of the schema of
    YurtAppOverriders is kept, because an older one prunes fields of overriders
    (`fleethook.engines.overrider.controller.openyurt_renderer_and_definition`).
    """
    definition = _decode_definition(text)
    kept = (definition.get("metadata") or {}).get("name") == YURT_APP_OVERRIDERS.name
    for version in (definition.get("spec") or {}).get("versions") or ():
        schema = version.pop("schema", None)
        read = None if schema is None else (msgspec.json.decode if kept else read_defaults)(schema)
        if read is not None:
            version["schema"] = read
    return definition


# Permission claims do not decide which webhooks are called.
_BINDING: Final = _keep(
    metadata=_METADATA,
    spec=_keep("reference"),
    status=_keep("apiExportClusterName", "phase", "boundResources", "conditions"),
)
_CONSUMER: Final = _keep(
    metadata=_METADATA,
    spec=_keep("permissionClaims"),
    status=_keep("phase", "conditions", "appliedPermissionClaims"),
)
_EXPORT: Final = _keep(metadata=_METADATA, spec=_keep("resources"))
_LOGICAL_CLUSTER: Final = _keep(metadata=_METADATA, spec=_keep("owner"), status=_keep("phase"))
_WORKSPACE: Final = _keep(metadata=_METADATA, spec=_keep("cluster"))

HOOK_CONFIGURATIONS: Final = tuple(
    WatchedResource(karmada.GROUP, karmada.VERSION, f"{kind.kind.lower()}s", kind.kind, decode_object)
    for kind in (karmada.EXPLORING_CONFIGURATION, karmada.INTERPRETER_CONFIGURATION)
)
DEFINITIONS: Final = WatchedResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", decode_definition
)

CUSTOMIZATIONS: Final = WatchedResource(
    karmada.GROUP, karmada.VERSION, "resourceinterpretercustomizations", karmada.CUSTOMIZATION.kind, decode_object
)


def _kcp(plural: str, kind: GroupKind, decode: Decode, *versions: str, export: str = "") -> WatchedResource:
    return WatchedResource(
        kind.group, versions[0], plural, kind.kind, decode, older_versions=versions[1:], export=export
    )


# A kcp before v0.28 serves bindings and exports in v1alpha1 only.
APIBINDINGS: Final = _kcp("apibindings", kcp.API_BINDING, _make_decoder(_BINDING), "v1alpha2", "v1alpha1")
CONSUMERS: Final = APIBINDINGS._replace(decode=_make_decoder(_CONSUMER))
"""The APIBindings of the consumers of an APIExport, with their permission claims."""
APIEXPORTS: Final = _kcp("apiexports", kcp.API_EXPORT, _make_decoder(_EXPORT), "v1alpha2", "v1alpha1")
API_RESOURCE_SCHEMAS: Final = _kcp("apiresourceschemas", kcp.API_RESOURCE_SCHEMA, decode_definition, "v1alpha1")
LOGICAL_CLUSTERS: Final = _kcp("logicalclusters", kcp.LOGICAL_CLUSTER, _make_decoder(_LOGICAL_CLUSTER), "v1alpha1")
# kcp, pkg/server/bootstrap/identity.go: lists of these over all logical clusters name the identity of this APIExport.
WORKSPACES: Final = _kcp("workspaces", kcp.WORKSPACE, _make_decoder(_WORKSPACE), "v1alpha1", export="tenancy.kcp.io")
NAMESPACES: Final = WatchedResource("", "v1", "namespaces", "Namespace", decode_metadata)
MUTATING_CONFIGURATIONS: Final = WatchedResource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", decode_object
)
VALIDATING_CONFIGURATIONS: Final = WatchedResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    decode_object,
)

KCP: Final = (APIBINDINGS, APIEXPORTS, API_RESOURCE_SCHEMAS, LOGICAL_CLUSTERS, WORKSPACES)
"""The resources that only kcp serves."""

CACHED: Final = (APIEXPORTS, API_RESOURCE_SCHEMAS, MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS)
"""The resources whose objects of all shards the cache server of a kcp has, among others.

kcp, pkg/reconciler/cache/replication/replication_controller.go: InstallIndexers, those without a filter.
"""

DISPATCHING: Final = (DEFINITIONS, NAMESPACES, MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS, *KCP)
"""The resources that the dispatch engine reads."""

BUILT_IN: Final = frozenset(
    {
        karmada.CONFIG_MAP,
        *(one.group_kind for one in (DEFINITIONS, NAMESPACES, MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS)),
    }
)
"""The kinds that each kube-apiserver and each kcp serves, without a CustomResourceDefinition."""

INTERPRETING: Final = (*HOOK_CONFIGURATIONS, DEFINITIONS, CUSTOMIZATIONS)
"""The resources that the interpret engine reads, besides `karmada_config`."""


KARMADAS: Final = WatchedResource(
    crd_tarball.GROUP, crd_tarball.VERSION, "karmadas", crd_tarball.KARMADA.kind, decode_object
)
"""The resource that the controller for CRD tarballs reads."""


def karmada_config(namespace: str) -> WatchedResource:
    """Return the one ConfigMap in ``namespace`` that customizes retention."""
    return WatchedResource(
        "", "v1", "configmaps", karmada.CONFIG_MAP.kind, decode_object, only=(namespace, karmada.CONFIG_MAP_NAME)
    )


RESOURCES: Final = (YURT_APP_OVERRIDERS, YURT_APP_SETS, YURT_APP_DAEMONS, NODE_POOLS)
"""The resources that rendering reads."""

SURROUNDINGS: Final = (DEFINITIONS, MUTATING_CONFIGURATIONS)
"""The resources that show how the cluster treats overriders; no response depends on them."""
