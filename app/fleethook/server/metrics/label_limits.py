"""Limits of the label values of metrics: tenants choose names, and must not create series without limit."""

from typing import Final

OTHER: Final = "other"
"""The label value of all names beyond the limits."""
MAX_CLUSTERS: Final = 100
MAX_WEBHOOKS_PER_CLUSTER: Final = 20


class ClusterNames:
    """The label values of logical clusters: the names of the first ones with requests, for the life of the process."""

    def __init__(self, *, max_clusters: int = MAX_CLUSTERS) -> None:
        """Prepare."""
        self._max_clusters: Final = max_clusters
        self._known: Final[set[str]] = set()

    def find_label(self, cluster: str) -> str:
        """Return the label value of a cluster, without adding one."""
        return cluster if cluster in self._known else OTHER

    def add_label(self, cluster: str, *, is_known: bool) -> str:
        """Return the label value of a cluster; add its name if there is room.

        Args:
            cluster: The name.
            is_known: Whether the cluster exists; other names are not added.
        """
        if is_known and cluster not in self._known and len(self._known) < self._max_clusters:
            self._known.add(cluster)
        return self.find_label(cluster)


class WebhookNames:
    """The label values of logical clusters and of their webhooks: the first names of each, for the life of the process.

    A limit per cluster keeps room for other clusters. There are 2,000 names at most, each with 2 types, 4 outcomes and
    some HTTP codes.
    """

    def __init__(
        self, *, max_clusters: int = MAX_CLUSTERS, max_webhooks_per_cluster: int = MAX_WEBHOOKS_PER_CLUSTER
    ) -> None:
        """Prepare."""
        self._max_clusters: Final = max_clusters
        self._max_webhooks: Final = max_webhooks_per_cluster
        self._known: Final[dict[str, set[str]]] = {}

    def add_label(self, cluster: str, webhook: str) -> tuple[str, str]:
        """Return the label values of a webhook; add its names if there is room."""
        webhooks = self._known.get(cluster)
        if webhooks is None:
            if len(self._known) >= self._max_clusters:
                return OTHER, OTHER
            webhooks = self._known[cluster] = set()
        if webhook not in webhooks:
            if len(webhooks) >= self._max_webhooks:
                return cluster, OTHER
            webhooks.add(webhook)
        return cluster, webhook


def group_code(code: int) -> str:
    """Return the label value of a status: a usual code itself, else its class, because webhooks choose codes freely."""
    return str(code) if code in _USUAL else f"{code // 100}xx"


_USUAL: Final = frozenset({0, 200, 400, 401, 403, 404, 429, 500, 502, 503, 504})
