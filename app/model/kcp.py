"""kcp's logical clusters, as far as every engine needs them (github.com/kcp-dev/logicalcluster)."""

from typing import Final

from app.model.json import JSONObject, as_object

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"


def cluster_of(document: JSONObject) -> str:
    """Return the logical cluster that ``document`` says it lives in; ``""`` is a plain cluster."""
    cluster = as_object(as_object(document.get("metadata")).get("annotations")).get(CLUSTER_ANNOTATION)
    return cluster if isinstance(cluster, str) else ""
