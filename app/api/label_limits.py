"""How many label values a metric may have: names that tenants choose must not make series without end."""

from typing import Final

OTHER: Final = "other"
"""Stands for all names beyond the bounds."""
MAX_CLUSTERS: Final = 100
MAX_WEBHOOKS_PER_CLUSTER: Final = 20


class ClusterNames:
    """Names of logical clusters, the first ones that there are requests of. They stay for the life of the process."""

    def __init__(self, *, max_clusters: int = MAX_CLUSTERS) -> None:
        """Prepare."""
        self._max_clusters: Final = max_clusters
        self._known: Final[set[str]] = set()

    def find_label(self, cluster: str) -> str:
        """Return a name as a label value, without adding one."""
        return cluster if cluster in self._known else OTHER

    def add_label(self, cluster: str, *, is_known: bool) -> str:
        """Return a name as a label value.

        Args:
            cluster: The name.
            is_known: Whether there is such a cluster, so that names without one use up no room.
        """
        if is_known and cluster not in self._known and len(self._known) < self._max_clusters:
            self._known.add(cluster)
        return self.find_label(cluster)


class WebhookNames:
    """Names of logical clusters and their webhooks, the first ones of each; a bound per cluster keeps room for others.

    With 2 types, 4 outcomes and the codes of HTTP there are some 2,000 names at most. They stay for the life of the
    process, as series do.
    """

    def __init__(
        self, *, max_clusters: int = MAX_CLUSTERS, max_webhooks_per_cluster: int = MAX_WEBHOOKS_PER_CLUSTER
    ) -> None:
        """Prepare."""
        self._max_clusters: Final = max_clusters
        self._max_webhooks: Final = max_webhooks_per_cluster
        self._known: Final[dict[str, set[str]]] = {}

    def add_label(self, cluster: str, webhook: str) -> tuple[str, str]:
        """Return the names as label values."""
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
    """Return an HTTP status as a label value: itself where it is usual, else its class; a webhook chooses it."""
    return str(code) if code in _USUAL else f"{code // 100}xx"


_USUAL: Final = frozenset({0, 200, 400, 401, 403, 404, 429, 500, 502, 503, 504})
