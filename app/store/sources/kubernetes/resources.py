"""Which resources are read from an apiserver, and what of their objects."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from app.model import karmada, kcp, openyurt, operator
from app.model.desired import Desired
from app.model.gvk import GroupKind
from app.model.json import JSONObject

Decode = Callable[[bytes | msgspec.Raw], JSONObject]


class WatchedResource(NamedTuple):
    """A resource of an apiserver, in the version to read."""

    group: str
    version: str
    plural: str
    kind: str
    decode: Decode
    """From the text of one object to what the store is given; raises msgspec.DecodeError."""
    selector: str = ""
    """A label selector, where not all objects are of interest."""
    only: tuple[str, str] | None = None
    """Namespace and name of the one object that is of interest."""
    older_versions: tuple[str, ...] = ()
    """The versions to read, the best first, if the apiserver does not serve `version`."""
    decode_first: Decode | None = None
    """The same for the first list, where less is enough there; None where it is not."""

    def in_versions(self) -> tuple["WatchedResource", ...]:
        """Return the resource in each version that can be read, the best first."""
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
        """The name as kubectl has it: ``yurtappsets.apps.openyurt.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        """The path that lists all objects of all namespaces, or of the one namespace that is of interest."""
        if self.only is not None:
            return self.in_namespace(self.only[0])
        return f"{api_path(self.group, self.version)}/{self.plural}"

    @property
    def selectors(self) -> dict[str, str]:
        """The query that selects the objects of interest."""
        found = {"labelSelector": self.selector} if self.selector else {}
        if self.only is not None:
            found["fieldSelector"] = f"metadata.name={self.only[1]}"
        return found

    def in_namespace(self, namespace: str, name: str = "") -> str:
        """Return the path of a namespace's objects, or of one of them; ``""`` is cluster scope."""
        base = api_path(self.group, self.version)
        scope = f"{base}/namespaces/{namespace}/{self.plural}" if namespace else f"{base}/{self.plural}"
        return f"{scope}/{name}" if name else scope


def api_path(group: str, version: str) -> str:
    """Return the path below which a group's version is served."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


class _MetaOnly(TypedDict, total=False):
    """The members of ``metav1.ObjectMeta`` that a narrow object is made from; others are skipped undecoded."""

    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    deletionTimestamp: Any
    labels: Any
    annotations: Any
    ownerReferences: Any


class _Narrow(TypedDict, total=False):
    metadata: _MetaOnly


_decode_any: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_narrow: Final = msgspec.json.Decoder(_Narrow).decode
_decode_desired: Final = msgspec.json.Decoder(Desired).decode


def whole(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode an object that an engine reads whole; its managed fields are of no use to any and half of its size."""
    document = _decode_any(text)
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return document


def without_status(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode a workload that is compared with its desired state; its status and managed fields say nothing about it."""
    return dict(_decode_desired(text))


def metadata_only(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode what is kept of an object that is only looked up or counted (`app.store.narrow`)."""
    return dict(_decode_narrow(text))


def _openyurt(plural: str, kind: GroupKind, *versions: str) -> WatchedResource:
    return WatchedResource(openyurt.GROUP, versions[0], plural, kind.kind, whole, older_versions=versions[1:])


YURT_APP_OVERRIDERS: Final = _openyurt("yurtappoverriders", openyurt.YURT_APP_OVERRIDER, "v1alpha1")
# The v1alpha1 view of a v1beta1 object lacks its tweaks, and shuffles its pools (OpenYurt v1.5 to v1.7, measured).
YURT_APP_SETS: Final = _openyurt("yurtappsets", openyurt.YURT_APP_SET, "v1beta1", "v1alpha1")
YURT_APP_DAEMONS: Final = _openyurt("yurtappdaemons", openyurt.YURT_APP_DAEMON, "v1alpha1")
NODE_POOLS: Final = _openyurt("nodepools", openyurt.NODE_POOL, "v1beta2", "v1beta1", "v1alpha1")


def _workloads(plural: str, kind: str) -> WatchedResource:
    # A change is compared with what is wanted, which takes the whole object. At the first reading hashes have to do.
    return WatchedResource(
        "apps", "v1", plural, kind, without_status, openyurt.POOL_NAME_LABEL, decode_first=metadata_only
    )


DEPLOYMENTS: Final = _workloads("deployments", "Deployment")
STATEFUL_SETS: Final = _workloads("statefulsets", "StatefulSet")

WORKLOADS: Final = (DEPLOYMENTS, STATEFUL_SETS)
"""What is rendered: workloads of node pools."""


class _Names(TypedDict, total=False):
    kind: Any
    plural: Any


class _Version(TypedDict, total=False):
    """What is kept of a version of a custom resource: not its columns, and its schema only where `definition` says."""

    name: Any
    served: Any
    subresources: Any
    schema: msgspec.Raw


class _DefinitionSpec(TypedDict, total=False):
    group: Any
    names: _Names
    scope: Any
    versions: list[_Version]
    conversion: Any


class _Definition(TypedDict, total=False):
    """What is kept of a CustomResourceDefinition, and of kcp's APIResourceSchema, which says the same in its place."""

    metadata: _MetaOnly
    spec: _DefinitionSpec


_decode_definition: Final = msgspec.json.Decoder(_Definition).decode


def definition(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode what is kept of a definition of a custom resource: its names, and its versions.

    Schemas are most of its text and are not kept, but for the one of YurtAppOverriders: an older one prunes what users
    write (`app.overrider.surroundings`).
    """
    found: JSONObject = dict(_decode_definition(text))
    kept = (found.get("metadata") or {}).get("name") == YURT_APP_OVERRIDERS.name
    for version in (found.get("spec") or {}).get("versions") or ():
        schema = version.pop("schema", None)
        if kept and schema is not None:
            version["schema"] = msgspec.json.decode(schema)
    return found


class _BindingSpec(TypedDict, total=False):
    reference: Any


class _BindingStatus(TypedDict, total=False):
    apiExportClusterName: Any
    phase: Any
    boundResources: Any
    conditions: Any


class _Binding(TypedDict, total=False):
    """What is kept of an APIBinding: not the claims, which are no question of whose webhooks are asked."""

    metadata: _MetaOnly
    spec: _BindingSpec
    status: _BindingStatus


class _ExportSpec(TypedDict, total=False):
    resources: Any


class _Export(TypedDict, total=False):
    metadata: _MetaOnly
    spec: _ExportSpec


class _LogicalClusterStatus(TypedDict, total=False):
    phase: Any


class _LogicalClusterSpec(TypedDict, total=False):
    owner: Any


class _LogicalCluster(TypedDict, total=False):
    metadata: _MetaOnly
    spec: _LogicalClusterSpec
    status: _LogicalClusterStatus


class _WorkspaceSpec(TypedDict, total=False):
    cluster: Any


class _Workspace(TypedDict, total=False):
    metadata: _MetaOnly
    spec: _WorkspaceSpec


_decode_binding: Final = msgspec.json.Decoder(_Binding).decode
_decode_export: Final = msgspec.json.Decoder(_Export).decode
_decode_logical_cluster: Final = msgspec.json.Decoder(_LogicalCluster).decode
_decode_workspace: Final = msgspec.json.Decoder(_Workspace).decode


def binding(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode what is kept of an APIBinding: what it refers to, and what came of that."""
    return dict(_decode_binding(text))


def export(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode what is kept of an APIExport: which resources it has."""
    return dict(_decode_export(text))


def logical_cluster(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode what is kept of a LogicalCluster: the Workspace that it belongs to, and its phase."""
    return dict(_decode_logical_cluster(text))


def workspace(text: bytes | msgspec.Raw) -> JSONObject:
    """Decode what is kept of a Workspace: which logical cluster it is."""
    return dict(_decode_workspace(text))


HOOK_CONFIGURATIONS: Final = tuple(
    WatchedResource(karmada.GROUP, karmada.VERSION, f"{kind.kind.lower()}s", kind.kind, whole)
    for kind in (karmada.EXPLORING_CONFIGURATION, karmada.INTERPRETER_CONFIGURATION)
)
DEFINITIONS: Final = WatchedResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", definition
)

CUSTOMIZATIONS: Final = WatchedResource(
    karmada.GROUP, karmada.VERSION, "resourceinterpretercustomizations", karmada.CUSTOMIZATION.kind, whole
)

# A kcp before apis.kcp.io/v1alpha2 serves bindings and exports in v1alpha1 alone and answers 404 to these two.
APIBINDINGS: Final = WatchedResource(kcp.API_BINDING.group, "v1alpha2", "apibindings", kcp.API_BINDING.kind, binding)
APIEXPORTS: Final = WatchedResource(kcp.API_EXPORT.group, "v1alpha2", "apiexports", kcp.API_EXPORT.kind, export)
API_RESOURCE_SCHEMAS: Final = WatchedResource(
    kcp.API_RESOURCE_SCHEMA.group, "v1alpha1", "apiresourceschemas", kcp.API_RESOURCE_SCHEMA.kind, definition
)
LOGICAL_CLUSTERS: Final = WatchedResource(
    kcp.LOGICAL_CLUSTER.group, "v1alpha1", "logicalclusters", kcp.LOGICAL_CLUSTER.kind, logical_cluster
)
WORKSPACES: Final = WatchedResource(kcp.WORKSPACE.group, "v1alpha1", "workspaces", kcp.WORKSPACE.kind, workspace)
NAMESPACES: Final = WatchedResource("", "v1", "namespaces", "Namespace", metadata_only)
MUTATING_CONFIGURATIONS: Final = WatchedResource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", whole
)
VALIDATING_CONFIGURATIONS: Final = WatchedResource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", whole
)

DISPATCHING: Final = (
    DEFINITIONS,
    NAMESPACES,
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    APIBINDINGS,
    APIEXPORTS,
    API_RESOURCE_SCHEMAS,
    LOGICAL_CLUSTERS,
    WORKSPACES,
)
"""The resources that dispatching reads; only a kcp has the last five."""

INTERPRETING: Final = (*HOOK_CONFIGURATIONS, DEFINITIONS, CUSTOMIZATIONS)
"""What interpreting reads, besides `karmada_config`."""


KARMADAS: Final = WatchedResource(operator.GROUP, operator.VERSION, "karmadas", operator.KARMADA.kind, whole)
"""What the controller for CRD tarballs reads."""


def karmada_config(namespace: str) -> WatchedResource:
    """Return the ConfigMap that retention is customized by, alone among those of its namespace."""
    return WatchedResource(
        "", "v1", "configmaps", karmada.CONFIG_MAP.kind, whole, only=(namespace, karmada.CONFIG_MAP_NAME)
    )


RESOURCES: Final = (YURT_APP_OVERRIDERS, YURT_APP_SETS, YURT_APP_DAEMONS, NODE_POOLS)
"""What rendering reads."""

SURROUNDINGS: Final = (DEFINITIONS, MUTATING_CONFIGURATIONS)
"""What tells how the cluster treats overriders; no answer depends on it."""
