"""Names and API types of kcp (github.com/kcp-dev/logicalcluster, github.com/kcp-dev/kcp/sdk)."""

import re
from typing import Final

from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
PATH_ANNOTATION: Final = "kcp.io/path"
"""The path of the logical cluster, on APIBindings and some other kinds of kcp."""
SHARD_ANNOTATION: Final = "kcp.io/shard"
"""The shard of an object in the cache server."""

API_BINDING: Final = GroupKind("apis.kcp.io", "APIBinding")
API_EXPORT: Final = GroupKind("apis.kcp.io", "APIExport")
API_RESOURCE_SCHEMA: Final = GroupKind("apis.kcp.io", "APIResourceSchema")
LOGICAL_CLUSTER: Final = GroupKind("core.kcp.io", "LogicalCluster")
LOGICAL_CLUSTER_NAME: Final = "cluster"
"""The name of the one LogicalCluster object in each logical cluster."""
BOUND_DEFINITIONS: Final = "system:bound-crds"
"""The logical cluster with the CustomResourceDefinitions of bound schemas, which has no objects of them."""
WORKSPACE: Final = GroupKind("tenancy.kcp.io", "Workspace")

_SEGMENT: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
CLUSTER_PATTERN: Final = rf"{_SEGMENT}(?::{_SEGMENT})*"
"""Pattern that matches the complete name or path of a logical cluster."""
_CLUSTER: Final = re.compile(CLUSTER_PATTERN, re.ASCII)
_SYSTEM: Final = "system:"


def cluster_of(document: JSONObject) -> str:
    """Return the logical cluster in the annotation of ``document``, ``""`` outside kcp."""
    # Without calls, because every review asks several times.
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    cluster = annotations.get(CLUSTER_ANNOTATION) if isinstance(annotations, dict) else None
    return cluster if isinstance(cluster, str) else ""


def is_cluster(text: str) -> bool:
    """Return whether ``text`` is the name or path of one logical cluster; ``*`` means all of them."""
    return _CLUSTER.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """Return whether ``text`` is a path (``root:org:ws``) and not a name; ``system:admin`` is a name."""
    return ":" in text and not text.startswith(_SYSTEM)


def is_system(cluster: str) -> bool:
    """Return whether a logical cluster is a system cluster, whose webhook configurations kcp never uses."""
    return cluster.startswith(_SYSTEM)


_GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
        "certificates.k8s.io", "coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io",
        "apis.kcp.io", "cache.kcp.io",
    }
)  # fmt: skip
_RESOURCES: Final = {
    "": ("configmaps", "events", "namespaces", "resourcequotas", "secrets", "serviceaccounts"),
    "core.kcp.io": ("logicalclusters",),
}


def serves_without_binding(group: str, resource: str) -> bool:
    """Return whether every logical cluster serves a resource without an APIBinding (kcp's discovery at dac74f59)."""
    return group in _GROUPS or resource in _RESOURCES.get(group, ())
