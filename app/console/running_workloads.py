"""Follows the Deployments and StatefulSets of a cluster, which a server that answers reviews does not store."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from app.lifetime import Cluster, run_in_background
from app.store import Store

if TYPE_CHECKING:
    from app.store.sources.kubernetes.source import KubernetesSource


def make_workload_source(cluster: Cluster, store: Store, *, absent_seconds: float) -> "KubernetesSource":
    """Return a source that keeps partial copies of the workloads of node pools in a store.

    Args:
        cluster: The API server.
        store: Gets the workloads.
        absent_seconds: How often to ask again for a resource that is not served.
    """
    # Imported here because the client takes 0.3 s and 65 MB. A console that reads manifests does not need it.
    from app.store.sources.kubernetes.resources import WORKLOADS  # noqa: PLC0415
    from app.store.sources.kubernetes.source import KubernetesSource  # noqa: PLC0415

    # No page waits for them: without the right to read workloads, only the effects on them are missing.
    return KubernetesSource(
        WORKLOADS,
        cluster.connection,
        store,
        absent_seconds=absent_seconds,
        every_cluster=cluster.source.every_cluster,
        advisory=[one.group_kind for one in WORKLOADS],
    )


def follow_workloads(source: "KubernetesSource", ended: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
    """Follow the workloads within the context; ``ended`` gets the reason if that ends early."""
    return run_in_background(source.run(), name="workloads", ended=ended)
