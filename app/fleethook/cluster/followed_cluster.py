"""An apiserver whose objects are followed: the connection, and the source of the objects that the engines read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fleethook.cluster.store import Store
from fleethook.model.gvk import GroupKind
from fleethook.settings import Settings

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection
    from fleethook.cluster.kubernetes.watched_resources import WatchedResource


class Followed(NamedTuple):
    """Resources that an engine follows.

    Attributes:
        needed: Resources that its answers depend on.
        advisory: Further resources, which may be missing.
    """

    needed: Sequence["WatchedResource"] = ()
    advisory: Sequence["WatchedResource"] = ()


class Cluster:
    """An apiserver to follow."""

    def __init__(self, settings: Settings, store: Store, followed: Sequence[Followed]) -> None:
        """Prepare.

        Args:
            settings: The settings.
            store: The store to feed.
            followed: The resources of each engine. A resource of several engines is followed once.
        """
        # Imported here because a server that reads manifests does not need the client.
        from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415
        from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource  # noqa: PLC0415

        self.connection: Final = _make_connection(settings)
        cache = settings.kcp_cache_kubeconfig
        self.cache: Final = None if cache is None else Connection(cache)
        needed = [one for each in followed for one in each.needed]
        advisory = [one for each in followed for one in each.advisory if one not in needed]
        self.resources: Final[dict[GroupKind, WatchedResource]] = {}
        """The followed resources by kind; of two engines, the first decides about the objects and fields to read."""
        for one in (*needed, *advisory):
            self.resources.setdefault(one.group_kind, one)
        self.source: Final = KubernetesSource(
            list(self.resources.values()),
            self.connection,
            store,
            every_cluster=settings.kcp or settings.kcp_export is not None,
            cache=self.cache,
            advisory=[one.group_kind for one in advisory],
        )

    @property
    def lack(self) -> str:
        """Message about an apiserver that serves none of the needed resources."""
        where = " in any logical cluster (/clusters/*)" if self.source.every_cluster else ""
        return (
            f"{self.connection.host} serves none of the resources that the engines read{where}: check the server's URL "
            "in the kubeconfig file, and --kcp"
        )


def _make_connection(settings: Settings) -> "Connection":
    """Return the connection to an apiserver, or to the consumers of an APIExport."""
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - as above
    from fleethook.cluster.kubernetes.export_connection import ExportConnection  # noqa: PLC0415 - as above

    if settings.kcp_export is None:
        return Connection(settings.kubeconfig, context=settings.context)
    return ExportConnection(settings.kubeconfig, context=settings.context, export=settings.kcp_export)
