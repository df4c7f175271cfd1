"""kcp's logical clusters and API types, as far as engines need them (github.com/kcp-dev/logicalcluster, kcp/sdk)."""

import re
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"

API_BINDING: Final = GroupKind("apis.kcp.io", "APIBinding")
API_EXPORT: Final = GroupKind("apis.kcp.io", "APIExport")
API_RESOURCE_SCHEMA: Final = GroupKind("apis.kcp.io", "APIResourceSchema")
LOGICAL_CLUSTER: Final = GroupKind("core.kcp.io", "LogicalCluster")
LOGICAL_CLUSTER_NAME: Final = "cluster"
"""Of the one object of its kind that each logical cluster has."""
WORKSPACE: Final = GroupKind("tenancy.kcp.io", "Workspace")

_SEGMENT: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
CLUSTER_PATTERN: Final = rf"{_SEGMENT}(?::{_SEGMENT})*"
"""Regular expression that the whole name or path of a logical cluster matches."""
_CLUSTER: Final = re.compile(CLUSTER_PATTERN, re.ASCII)
_SYSTEM: Final = "system:"


def cluster_of(document: JSONObject) -> str:
    """Return the logical cluster that ``document`` says it lives in; ``""`` is a plain cluster."""
    cluster = as_object(as_object(document.get("metadata")).get("annotations")).get(CLUSTER_ANNOTATION)
    return cluster if isinstance(cluster, str) else ""


def is_cluster(text: str) -> bool:
    """Return whether ``text`` names one logical cluster, by its name or its path; ``*`` names all, not one."""
    return _CLUSTER.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """Return whether a cluster is named by its path (``root:org:ws``); ``system:admin`` is a name."""
    return ":" in text and not text.startswith(_SYSTEM)


def is_system(cluster: str) -> bool:
    """Return whether a logical cluster is one of kcp's own, whose webhook configurations kcp never uses."""
    return cluster.startswith(_SYSTEM)
