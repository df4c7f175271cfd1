"""The ASGI application: it creates the routes, the sources of objects and the clients of webhooks."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from fleethook import __version__
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.registration.paths import split_cluster_path
from fleethook.cluster.store import Store
from fleethook.cluster.store.source_state import PartState, Source
from fleethook.engines.crds.routes import crds_routes
from fleethook.engines.dispatch.credentials.reloader import Credentials
from fleethook.engines.dispatch.dispatcher import Dependencies
from fleethook.engines.dispatch.factory import build_dispatcher
from fleethook.engines.dispatch.hooks.own_endpoints import Address, OwnEndpoints, list_own_addresses
from fleethook.engines.dispatch.owner.schema_owner import INDEXES as DISPATCH_INDEXES
from fleethook.engines.dispatch.request_limits import RequestLimits
from fleethook.engines.dispatch.review.access import ClusterAccess, is_open, log_access, needed_credentials
from fleethook.engines.dispatch.review.annotated_dispatch import annotated_routes
from fleethook.engines.dispatch.review.dispatch_endpoint import DispatchContext
from fleethook.engines.dispatch.review.tokens import Tokens
from fleethook.engines.dispatch.routes import dispatch_routes
from fleethook.engines.dispatch.validation.validator import ConfigurationValidator
from fleethook.engines.interpret.chain import Chain
from fleethook.engines.interpret.conventions.layer import make_conventions_layer
from fleethook.engines.interpret.hooks.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from fleethook.engines.interpret.layers import assemble_chain
from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.lua.script_admission import validate_scripts_in_slices
from fleethook.engines.interpret.lua.vm import ScriptLimits
from fleethook.engines.interpret.routes import interpret_routes
from fleethook.engines.overrider.openyurt.openyurt_conflicts import OpenYurtConflicts
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.plan_warmup import PlanWarmup
from fleethook.engines.overrider.preview.manifest_report import ManifestReport
from fleethook.engines.overrider.rollout.guard import GuardLimits
from fleethook.engines.overrider.routes import overrider_routes
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT
from fleethook.fairness.slots import Limits, Slots
from fleethook.interpret.python_interpreter import Interpreter, load
from fleethook.lifetime import Cluster, follow_cluster, follow_manifests, run_in_background, settle_garbage_collector
from fleethook.model.formats.fixed_addresses import parse_fixed_addresses
from fleethook.outbound.call_slots import Quotas
from fleethook.outbound.client import HookClient
from fleethook.outbound.failure_log import log_loop_error
from fleethook.outbound.hops import OUTGOING
from fleethook.server.callers import NamedCallers
from fleethook.server.health import Check, health_routes
from fleethook.server.logs.logs import LogSink, write_line
from fleethook.server.metrics.call_metrics import CallSlots
from fleethook.server.metrics.edge_metrics import EdgeMetrics
from fleethook.server.metrics.metrics import Metrics, plan_metrics, script_gauges, store_gauges
from fleethook.server.openapi import describe_reviews
from fleethook.server.protocol.body_memory import BodyBudget
from fleethook.server.protocol.capacity import find_capacity, log_contradictions
from fleethook.server.protocol.connections import Connections
from fleethook.server.protocol.sending import PacedApp, close_after_answer
from fleethook.server.protocol.trimming import Trimmer, find_trim
from fleethook.server.quota import RequestQuota
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.server.reviews.codec import encode_error
from fleethook.server.reviews.endpoint import Endpoint, Gate
from fleethook.server.reviews.recording import RecordReview, choose_routes
from fleethook.settings import Settings
from fleethook.tracing.spans import StartTrace
from fleethook.work.slice_runner import Slices
from fleethook.work.worker import Worker

INDEXES: Final = (OVERRIDERS_BY_SUBJECT, DEFINITIONS_BY_KIND, *DISPATCH_INDEXES)

# The part of the connections on which bodies may arrive at a time before their logical cluster is known.
_UNKNOWN_SHARE: Final = 8
_REASONS: Final = {404: "NotFound", 405: "MethodNotAllowed"}
_ONE_SHARD: Final = (
    "only one shard of the kcp is read; if the kcp has several, set kcp_cache_kubeconfig, so that the APIExports and "
    "webhooks of providers on other shards are known"
)


class Outside(NamedTuple):
    """The parts of an app that leave the process; replays answer for them from recordings.

    Attributes:
        dependencies: Returns the dependencies of the dispatcher in place of a server's.
        make_hook_layer: Makes the layer of interpreters that are webhooks; arguments as of `WebhookLayer`.
    """

    dependencies: Callable[[Store, Dependencies], Dependencies] | None = None
    make_hook_layer: Callable[..., WebhookLayer] = WebhookLayer


_SERVER: Final = Outside()


class Fleethook(FastAPI):
    """A FastAPI app that dispatches review routes by exact path, in front of FastAPI's router.

    Attributes:
        port: The port that the server listens on, 0 if it is not known yet.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        log: LogSink | None,
        record: RecordReview | None = None,
        trace: StartTrace | None = None,
        outside: Outside = _SERVER,
        store: Store | None = None,
    ) -> None:
        """Create the routes and the clients; arguments as of `create_app`.

        ``outside`` replaces parts that leave the process. ``store`` is an empty store with the indexes `INDEXES` that
        the caller fills; None to make one.
        """
        super().__init__(
            title="fleethook",
            version=__version__,
            summary="Admission and review webhooks for a fleet of Kubernetes clusters",
            lifespan=_lifespan,
        )
        self.settings: Final = settings
        self._outside: Final = outside
        self.store: Final = Store(INDEXES) if store is None else store
        self.metrics: Final = Metrics(max_clusters=settings.dispatch_metrics_clusters)
        self.cluster: Final = Cluster(settings, self.store) if settings.follows_cluster else None
        reports_conflicts = self.cluster is not None and "overrider" in settings.engines
        self.conflicts: Final = OpenYurtConflicts(self.store) if reports_conflicts else None
        self.source: Final[Source | None] = self._make_source()
        self.synced: Final = asyncio.Event()
        self.draining = False
        self.port = settings.port
        self.ended: Final[list[str]] = []
        self.plans: Final = PlanCache(max_bytes=settings.plan_cache_bytes)
        for collector in plan_metrics(lambda: (self.plans.size, self.plans.evicted)):
            self.metrics.registry.register(collector)
        self.slices: Final = Slices()
        self.warmup: Final = self._make_warmup()
        """Compiles plans ahead of reviews, None if there are none to compile."""
        self.worker: Final = Worker()
        """Thread for the work on large reviews."""
        self.capacity: Final = find_capacity(settings)
        self.trimmer: Final = Trimmer(find_trim())
        self.bodies: Final = BodyBudget(self.capacity.body_bytes, released=self.trimmer.release)
        self.connections: Connections | None = None
        """Connections of the listening server, None without one."""
        self.metrics.registry.register(EdgeMetrics(lambda: self.connections, self.bodies))
        self.manifest_report: Final = ManifestReport(self.store)
        fixed = parse_fixed_addresses(settings.resolve)
        self.hook_client: Final = HookClient(allow_private=True, fixed=fixed)
        self.webhook_client: Final = HookClient(
            allow_private=settings.calls_private_webhooks,
            fixed=fixed,
            quotas=Quotas(
                connections=settings.dispatch_workspace_connections,
                calls=settings.dispatch_workspace_calls,
                total=settings.dispatch_calls,
            ),
            headers=OUTGOING,
        )
        config_file = settings.admission_control_config_file
        self.credentials: Final = None if config_file is None else Credentials(config_file)
        self.requests: Final = RequestQuota(self.capacity.workspace_requests, total=self.capacity.connections)
        self.customizations: Final = Customizations(self.store, namespace=settings.karmada_namespace)
        self.runner: Final = Runner(
            ScriptLimits(settings.lua_seconds, settings.lua_instructions, settings.lua_memory << 20)
        )
        self._record: Final = record
        self._trace: Final = trace
        self.chain: Chain | None = None
        """Layers of interpreters, None if the engine is off."""
        self.routes_of_reviews: Final[list[ReviewRoute]] = [
            *(self._make_overrider_routes() if "overrider" in settings.engines else ()),
            *(self._make_interpret_routes() if "interpret" in settings.engines else ()),
            *(self._make_dispatch_routes() if "dispatch" in settings.engines else ()),
            *(crds_routes() if "crds" in settings.engines else ()),
        ]
        self._log: Final = log
        self._recorded: Final = choose_routes([one.path for one in self.routes_of_reviews], settings.record_routes)
        self._paced: Final = PacedApp(super().__call__, self.bodies)
        self.reviews: Final[dict[str, ASGIApp]] = {
            route.path: self._make_endpoint(route) for route in self.routes_of_reviews
        }
        if self.cluster is None:
            self.synced.set()

    def _make_source(self) -> Source | None:
        if self.cluster is not None:
            return self.cluster.source
        manifests, exclude = self.settings.manifests, self.settings.exclude
        return None if manifests is None else ManifestSource([manifests], self.store, exclude=exclude)

    def _make_warmup(self) -> PlanWarmup | None:
        if self.source is None or "overrider" not in self.settings.engines:
            return None
        return PlanWarmup(self.store, self.plans, self.slices, max_bytes=self.settings.plan_cache_bytes)

    def _make_overrider_routes(self) -> list[ReviewRoute]:
        edits = self.settings.unfit_subject_edits
        limits = GuardLimits(
            self.settings.rollout_warning_share, self.settings.rollout_refusal_share, self.settings.rollout_minimum
        )
        if self.cluster is None or self.conflicts is None:
            return overrider_routes(
                self.store, self.plans, None, unfit_subject_edits=edits, rollout_limits=limits, slices=self.slices
            )
        return overrider_routes(
            self.store,
            self.plans,
            self.cluster.source,
            unfit_subject_edits=edits,
            rollout_limits=limits,
            conclude=self.cluster.conclude,
            dry_runs=self.cluster.dry_runs,
            findings=self.conflicts.findings,
            slices=self.slices,
        )

    def _make_interpret_routes(self) -> list[ReviewRoute]:
        settings = self.settings
        self.runner.prepare()
        self.chain = assemble_chain(
            self.customizations,
            self._outside.make_hook_layer(self.store, self.hook_client, observe=self.metrics.count_hook_call),
            _load_interpreters(settings),
            self.runner,
            bundle=self.store if settings.bundle else None,
            observe=self.metrics.count_script,
            traces=self._record is not None,
            conventions=make_conventions_layer(self.store, settings.interpret_conventions),
        )
        validate = partial(
            validate_scripts_in_slices, store=self.store, runner=self.runner, namespace=settings.karmada_namespace
        )
        return interpret_routes(self.chain, validate, slices=self.slices)

    def _make_dispatch_routes(self) -> list[ReviewRoute]:
        cluster, settings = self.cluster, self.settings
        dispatcher = build_dispatcher(
            self.store,
            self.webhook_client,
            observe=self.metrics.count_webhook_call,
            post=None if cluster is None else cluster.connection.json,
            live=None if cluster is None else cluster.source,
            as_kcp=settings.dispatch_as_kcp,
            share=settings.dispatch_share_time,
            find_credential=None if self.credentials is None else self.credentials.find,
            limits=RequestLimits(
                webhooks=settings.dispatch_request_webhooks,
                access_reviews=settings.dispatch_request_access_reviews,
                cel_cost=settings.dispatch_cel_budget,
            ),
            own=OwnEndpoints(self._list_addresses),
            replace=self._outside.dependencies,
            traces=self._record is not None,
        )
        unknown = max(2, self.capacity.connections // _UNKNOWN_SHARE)
        validate = ConfigurationValidator(dispatcher.compiler, worker=dispatcher.worker, turns=dispatcher.turns).review
        context = DispatchContext(
            dispatcher,
            self.store,
            self.synced,
            self._find_stale,
            self._make_access(),
            self.requests,
            refusals=Slots(Limits(sys.maxsize, each=1)),
            unknown=Slots(Limits(unknown, reserved=unknown // 2)),
        )
        return [
            *dispatch_routes(context, validate),
            *annotated_routes(context, NamedCallers(settings.dispatch_callers)),
        ]

    def _list_addresses(self) -> list[Address]:
        """Return the addresses of this server, to skip webhooks that point at it. The port is known once it listens."""
        settings = self.settings
        names = (*settings.dns_names, settings.host)
        return list_own_addresses(
            service=settings.service, webhook_url=settings.webhook_url, names=names, port=self.port
        )

    def _make_access(self) -> ClusterAccess:
        """Return the rules for callers of the routes of logical clusters."""
        settings, tokens = self.settings, None
        if self.cluster is not None:
            tokens = Tokens(
                self.cluster.connection.json,
                self.cluster.source,
                seconds=settings.dispatch_token_seconds,
                audiences=settings.dispatch_token_audiences,
            )
        if self._outside is _SERVER:
            log_access(settings)
            log_contradictions(settings, self.capacity)
        callers, lack = NamedCallers(settings.dispatch_callers), needed_credentials(settings)
        return ClusterAccess(is_open=is_open(settings), callers=callers, tokens=tokens, lack=lack)

    def _find_stale(self) -> str:
        """Return the reason to refuse dispatching because objects may be outdated, ``""`` if there is none.

        With outdated bindings, the owner of a schema, and so its webhooks, may be wrong.
        """
        if isinstance(self.source, ManifestSource) and not self.source.synced:
            return f"manifests were not read: {'; '.join(self.source.errors.values())}"
        if self.cluster is None:
            return ""
        if self.cluster.source.finds_nothing:
            return self.cluster.lack
        if self.settings.dispatch_as_kcp:
            return ""
        parts = (part for part in self.cluster.source.parts() if part.name in self.cluster.dispatching)
        silent = (part for part in parts if (part.age or 0.0) > self.settings.stale_after)
        return "; ".join(f"no update of {part.name} from the apiserver for {part.age:.0f} s" for part in silent)

    def _make_endpoint(self, route: ReviewRoute) -> ASGIApp:
        endpoint = route.make(
            route.path,
            metrics=self.metrics,
            body_limit=self.settings.body_limit,
            log=self._log,
            known_clients_only=self.settings.client_ca_file is not None,
            worker=self.worker,
            bodies=self.bodies,
            record=self._record if route.path in self._recorded else None,
            trace=self._trace,
        )
        if self.cluster is None or not route.needs:
            return endpoint
        return Gate(endpoint, partial(self.cluster.source.missing, route.needs))

    def find_direct(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path that may answer without ASGI around it, None if there is none now."""
        if self.draining:
            return None
        endpoint = self.find_endpoint(path)
        return endpoint if endpoint is not None and endpoint.max_at_once else None

    def find_endpoint(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path, None if it takes no reviews or waits for the objects that it needs."""
        endpoint = self._find_review(path)
        if isinstance(endpoint, Gate):
            endpoint = endpoint.endpoint
        return endpoint if isinstance(endpoint, Endpoint) else None

    def _find_review(self, path: str) -> ASGIApp | None:
        """Return the endpoint of a path, None if it takes no reviews."""
        return self.reviews.get(path) or self.reviews.get(split_cluster_path(path)[0])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer reviews here and leave everything else to FastAPI."""
        if self.draining:
            send = close_after_answer(send)
        endpoint = self._find_review(scope["path"]) if scope["type"] == "http" else None
        if endpoint is not None:
            await endpoint(scope, receive, send)
        else:
            await self._paced(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, review routes included."""
        return describe_reviews(super().openapi(), self.routes_of_reviews)

    def checks(self) -> Iterator[Check]:
        """Yield the checks of ``/readyz``."""
        yield Check("draining", not self.draining, "shutting down" if self.draining else "")
        for refused in self.customizations.refused():
            yield Check("customizations", ok=True, detail=refused.text)
        if self.credentials is not None and self.credentials.problem:
            yield Check(
                "credentials", ok=True, detail=f"the previous credentials stay in use: {self.credentials.problem}"
            )
        if self.source is None:
            yield Check("manifests", ok=True, detail="no source of objects is configured; the store is empty")
            return
        if self.conflicts is not None:
            for text in self.conflicts.findings():
                yield Check("openyurt", ok=True, detail=text)
        if self.cluster is not None:
            yield from self._check_cluster(self.cluster)
        for part in self.source.parts():
            # A kind that no answer needs is reported only if it cannot be read.
            if part.needed or part.failing:
                yield self._check_part(part)
        if detail := self.manifest_report.detail():
            yield Check("overriders", ok=True, detail=detail)

    def _check_cluster(self, cluster: Cluster) -> Iterator[Check]:
        if cluster.source.finds_nothing:
            yield Check("apiserver", ok=False, detail=cluster.lack)
        if cluster.dispatching and self.settings.kcp and cluster.cache is None:
            yield Check("shards", ok=True, detail=_ONE_SHARD)
        # Before that, the kinds that are not listed yet are the reason; a refused kind must not hold the other engines.
        is_listed = all(part.synced for part in cluster.source.parts() if part.needed)
        if is_listed and self.warmup is not None and not self.warmup.is_ready:
            yield Check("plans", ok=False, detail="the plans of overriders are not compiled yet")

    async def check_manifests(self) -> None:
        """Check the overriders of the manifests, log new findings, and compile their plans before the first review."""
        if isinstance(self.source, ManifestSource) and self.warmup is not None:
            await self.manifest_report.refresh(self.source.documents())
            if not self.warmup.is_ready:
                await self.warmup.prepare()

    def _check_part(self, part: PartState) -> Check:
        """Return the check of one resource. A stale resource is ready, unless the settings say otherwise."""
        stale = self.cluster is not None and part.age is not None and part.age > self.settings.stale_after
        if not stale or part.age is None:
            return Check(part.name, part.synced, part.detail, degraded=part.refused)
        staleness = f"no update from the apiserver for {part.age:.0f} s, answering from the last known objects"
        detail = f"{staleness}: {part.detail}" if part.detail else staleness
        return Check(part.name, part.synced and not self.settings.stale_is_unready, detail)


def _load_interpreters(settings: Settings) -> list[Interpreter]:
    return [one for source in settings.interpreters for one in load(source)]


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, Fleethook)
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    if app.source is not None:
        for collector in store_gauges(app.store.counts, app.source.parts):
            app.metrics.registry.register(collector)
    app.metrics.registry.register(CallSlots(app.webhook_client))
    for gauge in app.metrics.consumers.gauges(lambda: app.requests.in_flight, app.webhook_client.slots.by_consumer):
        app.metrics.registry.register(gauge)
    for collector in script_gauges(app.customizations.counts):
        app.metrics.registry.register(collector)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(app.hook_client)
        await stack.enter_async_context(app.webhook_client)
        if app.credentials is not None:
            reload = run_in_background(app.credentials.follow(), name="credentials of webhooks", ended=app.ended.append)
            await stack.enter_async_context(reload)
        stack.callback(app.runner.close)
        if isinstance(app.source, ManifestSource):
            await stack.enter_async_context(follow_manifests(app.source, changed=app.check_manifests))
        elif app.cluster is not None:
            prepare = None if app.warmup is None else app.warmup.prepare
            following = follow_cluster(app.cluster, synced=app.synced.set, ended=app.ended.append, prepare=prepare)
            await stack.enter_async_context(following)
        else:
            settle_garbage_collector()
        if app.warmup is not None:
            warmup = run_in_background(app.warmup.follow(), name="compilation of plans", ended=app.ended.append)
            await stack.enter_async_context(warmup)
        yield


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    body = encode_error(error.status_code, _REASONS.get(error.status_code, "Unknown"), str(error.detail))
    return Response(body, status_code=error.status_code, media_type="application/json", headers=error.headers)


async def _bad_request(_: Request, error: Exception) -> Response:
    return Response(encode_error(400, "BadRequest", str(error)), status_code=400, media_type="application/json")


def create_app(
    settings: Settings | None = None,
    *,
    log: LogSink | None = write_line,
    record: RecordReview | None = None,
    trace: StartTrace | None = None,
) -> Fleethook:
    """Return the application.

    Args:
        settings: Read from the environment and the settings file if None.
        log: Takes the log lines of reviews, None to drop them.
        record: Takes answered reviews of the routes to record; None to record nothing.
        trace: Starts the span of a review; None to trace nothing.

    Raises:
        RecordSettingError: A route to record does not exist.
    """
    settings = settings or Settings()
    app = Fleethook(settings, log=log if settings.log_reviews else None, record=record, trace=trace)
    app.include_router(health_routes(app.checks, app.ended, app.metrics.exposition))
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _bad_request)
    return app
