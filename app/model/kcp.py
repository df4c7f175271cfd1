"""kcp's logical clusters, as far as every engine needs them (github.com/kcp-dev/logicalcluster)."""

from typing import Final

from app.model.json import JSONObject

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"


def cluster_of(document: JSONObject) -> str:
    """Return the logical cluster that ``document`` says it lives in; ``""`` is a plain cluster."""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    cluster = annotations.get(CLUSTER_ANNOTATION)
    return cluster if isinstance(cluster, str) else ""
