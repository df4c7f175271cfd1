"""The engine of dispatching in a running server: the dispatcher, the rules for its callers, and its checks."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from prometheus_client.registry import Collector

from fleethook.cluster.followed_objects import Followed
from fleethook.cluster.kubernetes.watched_resources import DISPATCHING, WORKSPACES
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.registration.paths import CLUSTER_EXPLAIN, CLUSTER_MUTATE, CLUSTER_VALIDATE, OBSERVE
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.call.webhook_call_and_audit import Observe, WebhookCaller
from fleethook.engines.dispatch.dispatch_settings import DispatchSettings
from fleethook.engines.dispatch.dispatcher import Dependencies, Dispatcher
from fleethook.engines.dispatch.explanation import Explanation
from fleethook.engines.dispatch.match.selectors_and_decision import NamespaceSource, read_namespace
from fleethook.engines.dispatch.offline_dispatcher_and_replay import answer_from_records
from fleethook.engines.dispatch.review.access import ClusterAccess, Tokens, is_open, log_access, needed_credentials
from fleethook.engines.dispatch.review.all_clusters_endpoint import annotated_routes
from fleethook.engines.dispatch.review.cluster_endpoint import (
    READING_SHARE,
    DispatchContext,
    DispatchEndpoint,
    ExplainEndpoint,
    RequestQuota,
)
from fleethook.engines.dispatch.review.dispatch_metrics import CallMetrics, DispatchMetrics
from fleethook.engines.dispatch.version_conversion import ObjectConverter
from fleethook.engines.dispatch.webhooks.cluster_webhooks import Configurations
from fleethook.fair_limits import CallLimit
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.formats.client_config_and_addresses import parse_fixed_addresses
from fleethook.outbound.calls_and_retries import OUTGOING, HookClient
from fleethook.server.engine_server import BackgroundTask, EngineServer, ServerContext
from fleethook.server.health import Check
from fleethook.server.reviews.admission_endpoint import MakeEndpoint, ReviewRoute, make_admission_route
from fleethook.server.reviews.http_checks import NamedCallers
from fleethook.settings import Settings


def dispatch_routes(context: DispatchContext) -> list[ReviewRoute]:
    """Return the routes of dispatching, which answer with the objects and services of a context."""
    mutate = "Ask the mutating webhooks of the cluster that owns the schema, and return their changes as one patch"
    ask = "Ask the validating webhooks of the cluster that owns the schema"
    explained = "Explain for each webhook whether it would be asked, and if not, why"
    return [
        _make_cluster_route(CLUSTER_MUTATE, mutate, partial(DispatchEndpoint, context=context, phase="mutating")),
        _make_cluster_route(CLUSTER_VALIDATE, ask, partial(DispatchEndpoint, context=context, phase="validating")),
        _make_cluster_route(CLUSTER_EXPLAIN, explained, partial(ExplainEndpoint, context=context))._replace(
            answer=Explanation
        ),
        make_admission_route(OBSERVE, "Admit every review, so that the server records it", _observe, pure=True),
    ]


def _observe(request: AdmissionRequest) -> Response:
    """Admit any review: another control plane decides it, and this server only records it."""
    del request
    return admission.allowed()


def _make_cluster_route(path: str, summary: str, make: MakeEndpoint) -> ReviewRoute:
    return ReviewRoute(path, summary, make, authorizes=True)


_ONE_SHARD: Final = (
    "only one shard of the kcp is read; if the kcp has several, set kcp_cache_kubeconfig, so that the APIExports and "
    "webhooks of providers on other shards are known"
)
_NAMES: Final = frozenset(resource.name for resource in DISPATCHING)


def list_resources(settings: Settings) -> Followed:
    """Return the kinds that dispatching depends on."""
    # Only a kcp has Workspaces, and roles for other apiservers need not grant them.
    spare = () if settings.kcp else (WORKSPACES,)
    return Followed([resource for resource in DISPATCHING if resource not in spare], spare)


def build_dispatcher(
    store: Store,
    client: HookClient,
    *,
    observe: Observe,
    live: NamespaceSource | None = None,
    as_kcp: bool = False,
    traces: bool = False,
    replace: Callable[[Store, Dependencies], Dependencies] | None = None,
) -> Dispatcher:
    """Build a dispatcher.

    Args:
        store: The objects, indexed by `fleethook.engines.dispatch.schema_owner_and_cluster_paths.INDEXES`.
        client: Calls webhooks.
        observe: Observes each call.
        live: Reads objects from the apiserver into the store.
        as_kcp: As for `Dispatcher`.
        traces: As for `Dispatcher`.
        replace: Returns the dependencies to use in place of those that leave the process, for replays.
    """
    caller = WebhookCaller(client, observe=observe)
    dependencies = Dependencies(
        call_webhook=caller.call,
        convert=ObjectConverter(store, client),
        read_namespace=partial(read_namespace, live=live) if live is not None else None,
    )
    if replace is not None:
        dependencies = replace(store, dependencies)
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp, traces=traces)


class DispatchServer(EngineServer):
    """Dispatches reviews of logical clusters, and checks webhook configurations.

    Attributes:
        synced: Set once all objects that dispatching needs are read.
        client: Calls webhooks.
        requests: Counts the requests of logical clusters.
    """

    def __init__(self, context: ServerContext) -> None:
        """Prepare."""
        super().__init__(context)
        settings = context.settings.section(DispatchSettings)
        self._settings: Final = settings
        self.synced: Final = asyncio.Event()
        if context.cluster is None:
            self.synced.set()
        self.client: Final = HookClient(
            allow_private=settings.calls_private_webhooks,
            fixed=parse_fixed_addresses(settings.resolve),
            headers=OUTGOING,
        )
        self.metrics: Final = DispatchMetrics()
        self.requests: Final = RequestQuota(context.capacity.connections)

    def routes(self) -> list[ReviewRoute]:
        """Return the routes of logical clusters."""
        dispatcher = self._build_dispatcher()
        context = DispatchContext(
            dispatcher,
            self.context.store,
            self.synced,
            self._find_stale,
            self._make_access(),
            self.requests,
            self.metrics,
            CallLimit(max(2, self.context.capacity.connections // READING_SHARE)),
        )
        return [*dispatch_routes(context), *annotated_routes(context, NamedCallers(self._settings.dispatch_callers))]

    def _build_dispatcher(self) -> Dispatcher:
        cluster, settings = self.context.cluster, self._settings
        return build_dispatcher(
            self.context.store,
            self.client,
            observe=self.metrics.count_webhook_call,
            live=None if cluster is None else cluster.source,
            as_kcp=settings.dispatch_as_kcp,
            replace=answer_from_records if self.context.is_replay else None,
            traces=self.context.traces_calls,
        )

    def _make_access(self) -> ClusterAccess:
        """Return the rules for callers of the routes of logical clusters."""
        settings, cluster, tokens = self._settings, self.context.cluster, None
        if cluster is not None:
            tokens = Tokens(cluster.connection.json, cluster.source, audiences=settings.dispatch_token_audiences)
        if not self.context.is_replay:
            log_access(settings)
        callers, lack = NamedCallers(settings.dispatch_callers), needed_credentials(settings)
        return ClusterAccess(is_open=is_open(settings), callers=callers, tokens=tokens, lack=lack)

    def _find_stale(self) -> str:
        """Return the reason to refuse dispatching because objects may be outdated, ``""`` if there is none.

        With outdated bindings, the owner of a schema, and so its webhooks, may be wrong.
        """
        source, cluster, settings = self.context.source, self.context.cluster, self._settings
        if isinstance(source, ManifestSource) and not source.synced:
            return f"manifests were not read: {'; '.join(source.errors.values())}"
        if cluster is None:
            return ""
        if cluster.source.finds_nothing:
            return cluster.source.describe_lack(cluster.connection.host)
        if settings.dispatch_as_kcp:
            return ""
        parts = (part for part in cluster.source.parts() if part.name in _NAMES)
        silent = (part for part in parts if part.is_stale)
        return "; ".join(f"no update of {part.name} from the apiserver for {part.age:.0f} s" for part in silent)

    def checks(self) -> Iterator[Check]:
        """Yield the check of the shards of a kcp."""
        cluster = self.context.cluster
        if cluster is not None and self.context.settings.kcp and cluster.cache is None:
            yield Check("shards", ok=True, detail=_ONE_SHARD)

    def collectors(self) -> Iterator[Collector]:
        """Yield the metrics of requests and of webhook calls."""
        yield CallMetrics(self.client)
        yield from self.metrics.collectors(lambda: self.requests.in_flight, lambda: self.client.calls.held)

    async def open(self) -> None:
        """Open the client."""
        await self.client.open()

    async def close(self) -> None:
        """Close the client."""
        await self.client.close()

    def tasks(self) -> Iterator[BackgroundTask]:
        """Yield the task that waits for the first objects."""
        if self.context.cluster is not None:
            yield "first sync of dispatching", self._wait_synced()

    async def _wait_synced(self) -> None:
        assert self.context.cluster is not None
        needed = list_resources(self.context.settings).needed
        await self.context.cluster.source.wait_synced([resource.group_kind for resource in needed])
        self.synced.set()
