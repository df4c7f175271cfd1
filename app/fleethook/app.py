"""The ASGI application: it collects the routes, checks, metrics and tasks of the enabled engines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator
from functools import partial
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from fleethook import __version__
from fleethook.cluster.followed_objects import Cluster, Followed, follow_cluster, follow_manifests, run_in_background
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.registration.paths import find_route, split_consumer_path
from fleethook.cluster.store import Index, Source, Store
from fleethook.engine import enabled_engines, installed_engines, load_reference
from fleethook.outbound.call_errors_and_failure_log import log_loop_error
from fleethook.server.engine_server import EngineServer, ServerContext
from fleethook.server.health import Check, check_server, health_routes
from fleethook.server.log import LogSink, write_line
from fleethook.server.metrics import Metrics, store_gauges
from fleethook.server.openapi import SUMMARY, TITLE, describe_reviews
from fleethook.server.protocol.bodies import BodyBudget, close_after_answer
from fleethook.server.protocol.connections import Connections, EdgeMetrics, find_capacity
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.server.reviews.http_checks import Endpoint
from fleethook.server.reviews.records_and_traces import RecordReview
from fleethook.server.reviews.review_codec import encode_error
from fleethook.settings import Settings
from fleethook.tracing.spans_and_otel_variables import StartTrace
from fleethook.work.threads_and_gc import Worker, settle_garbage_collector

_REASONS: Final = {404: "NotFound", 405: "MethodNotAllowed"}


def list_indexes(names: Collection[str] | None = None) -> list[Index]:
    """Return the indexes that the reviews of engines need; ``names`` are those of the engines, None for all."""
    engines = enabled_engines(installed_engines() if names is None else names)
    return [index for engine in engines if engine.indexes for index in load_reference(engine.indexes)]


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
        is_replay: bool = False,
        store: Store | None = None,
    ) -> None:
        """Create the routes and the clients; arguments as of `create_app`.

        With ``is_replay``, all answers of other servers come from records. ``store`` is an empty store with the
        indexes of `list_indexes` that the caller fills; None to make one.
        """
        super().__init__(
            title=TITLE,
            version=__version__,
            summary=SUMMARY,
            lifespan=_lifespan,
        )
        self.settings: Final = settings
        self.store: Final = Store(list_indexes(settings.engines)) if store is None else store
        self.metrics: Final = Metrics()
        self.cluster: Final = self._make_cluster() if settings.follows_cluster else None
        self.draining = False
        self.ended: Final[list[str]] = []
        self.parts: Final = ServerContext(
            settings=settings,
            store=self.store,
            metrics=self.metrics,
            worker=Worker(),
            capacity=find_capacity(settings),
            source=self._make_source(),
            cluster=self.cluster,
            listening=asyncio.Event(),
            is_replay=is_replay,
            traces_calls=record is not None,
            add_route=self._add_route,
            registration_changed=asyncio.Event(),
        )
        """The parts that the engines share."""
        self.bodies: Final = BodyBudget(self.parts.capacity.body_bytes)
        self.connections: Connections | None = None
        """Connections of the listening server, None without one."""
        self.engines: Final[dict[str, EngineServer]] = {
            one.name: load_reference(one.server)(self.parts) for one in enabled_engines(settings.engines)
        }
        """The enabled engines by name."""
        self.metrics.registry.register(EdgeMetrics(lambda: self.connections, self.bodies))
        for engine in self.engines.values():
            for collector in engine.collectors():
                self.metrics.registry.register(collector)
        by_engine = {name: list(engine.routes()) for name, engine in self.engines.items()}
        self.routes_of_reviews: Final = [route for routes in by_engine.values() for route in routes]
        self.engine_of_route: Final = {route.path: name for name, routes in by_engine.items() for route in routes}
        """The engine of each route, by path."""
        self._parts_of_endpoints: Final[dict[str, Any]] = {
            "metrics": self.metrics,
            "body_limit": settings.body_limit,
            "log": log,
            "known_clients_only": settings.client_ca_file is not None,
            "worker": self.parts.worker,
            "bodies": self.bodies,
            "record": record,
            "trace": trace,
        }
        self.reviews: Final = {route.path: self._make_endpoint(route) for route in self.routes_of_reviews}

    def _make_cluster(self) -> Cluster:
        return Cluster(self.settings, self.store, find_followed(self.settings, self.settings.engines))

    def _make_source(self) -> Source | None:
        if self.cluster is not None:
            return self.cluster.source
        manifests, exclude = self.settings.manifests, self.settings.exclude
        return None if manifests is None else ManifestSource([manifests], self.store, exclude=exclude)

    def _add_route(self, route: ReviewRoute) -> None:
        """Serve another route."""
        self.routes_of_reviews.append(route)
        self.reviews[route.path] = self._make_endpoint(route)

    def _make_endpoint(self, route: ReviewRoute) -> Endpoint:
        endpoint = route.make(route.path, **self._parts_of_endpoints)
        if self.cluster is not None and route.needs:
            endpoint.missing = partial(self.cluster.source.missing, route.needs)
        return endpoint

    def find_direct(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path that may answer without ASGI around it, None if there is none now."""
        return None if self.draining else self.find_endpoint(path)

    def find_endpoint(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path, None if it takes no reviews."""
        if (endpoint := self.reviews.get(path)) is not None:
            return endpoint
        route = split_consumer_path(path)[0]
        return self.reviews.get(route) or self.reviews.get(find_route(route))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer reviews here and leave everything else to FastAPI."""
        if self.draining:
            send = close_after_answer(send)
        endpoint = self.find_endpoint(scope["path"]) if scope["type"] == "http" else None
        if endpoint is not None:
            await endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, review routes included."""
        return describe_reviews(super().openapi(), self.routes_of_reviews)

    def checks(self) -> Iterator[Check]:
        """Return the checks of ``/readyz``."""
        of_engines = [check for engine in self.engines.values() for check in engine.checks()]
        return check_server(of_engines, source=self.parts.source, cluster=self.cluster, is_draining=self.draining)

    async def check_manifests(self) -> None:
        """Tell the engines that the manifests were loaded or have changed."""
        if isinstance(self.parts.source, ManifestSource):
            for engine in self.engines.values():
                await engine.check_manifests(self.parts.source.documents())

    async def close(self) -> None:
        """End the threads and the clients of the engines."""
        for engine in self.engines.values():
            await engine.close()


def find_followed(settings: Settings, names: Collection[str]) -> list[Followed]:
    """Return the resources of the engines of some names."""
    return [load_reference(engine.resources)(settings) for engine in enabled_engines(names) if engine.resources]


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, Fleethook)
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    if app.parts.source is not None:
        for collector in store_gauges(app.store.counts, app.parts.source.parts):
            app.metrics.registry.register(collector)
    async with contextlib.AsyncExitStack() as stack:
        for engine in app.engines.values():
            stack.push_async_callback(engine.close)
            await engine.open()
        if isinstance(app.parts.source, ManifestSource):
            await stack.enter_async_context(follow_manifests(app.parts.source, changed=app.check_manifests))
        elif app.cluster is not None:
            following = follow_cluster(app.cluster, ended=app.ended.append)
            await stack.enter_async_context(following)
        else:
            settle_garbage_collector()
        for engine in app.engines.values():
            for name, work in engine.tasks():
                await stack.enter_async_context(run_in_background(work, name=name, ended=app.ended.append))
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
        record: Takes answered reviews; None to record nothing.
        trace: Starts the span of a review; None to trace nothing.
    """
    settings = settings or Settings()
    app = Fleethook(settings, log=log if settings.log_reviews else None, record=record, trace=trace)
    app.include_router(health_routes(app.checks, app.ended, app.metrics.exposition))
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _bad_request)
    return app
