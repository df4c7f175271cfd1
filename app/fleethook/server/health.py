"""The routes of kubelets and Prometheus: ``/healthz``, ``/readyz`` with its checks, and ``/metrics``."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from fleethook.cluster.followed_objects import Cluster
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.store import Source
from fleethook.server.protocol.bodies import RETRY_AFTER, Reply, close_after_answer, send_reply
from fleethook.server.reviews.review_codec import encode_error

_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})


_TOO_MANY: Final = encode_error(
    503,
    "ServiceUnavailable",
    "max_connections is reached and every connection has a request that is being answered; try again later",
)


@dataclass(frozen=True)
class Check:
    """One check of readiness, as ``/readyz`` shows it."""

    name: str
    ok: bool
    detail: str
    degraded: bool = False
    """Whether the other replicas fail this check, too. A Service then gains nothing by choosing them."""


# Users and probes read the answer, so it has the first findings about manifests only. The log has all.
_MAX_FINDINGS: Final = 20


def join_findings(findings: Sequence[str]) -> str:
    """Return findings as the detail of a check; of many, the first ones and the number of the others."""
    more = len(findings) - _MAX_FINDINGS
    shown = "; ".join(findings[:_MAX_FINDINGS])
    return f"{shown}; and {more} more" if more > 0 else shown


def check_server(
    of_engines: Iterable[Check], *, source: Source | None, cluster: Cluster | None, is_draining: bool
) -> Iterator[Check]:
    """Yield the checks of a server.

    Args:
        of_engines: The checks of its engines.
        source: The source of its objects, None without one.
        cluster: The cluster of the source, None without one.
        is_draining: Whether the server is shutting down.
    """
    yield Check("draining", not is_draining, "shutting down" if is_draining else "")
    if source is None:
        yield Check("manifests", ok=True, detail="no source of objects is configured; the store is empty")
    if cluster is not None and cluster.source.finds_nothing:
        yield Check("apiserver", ok=False, detail=cluster.source.describe_lack(cluster.connection.host))
    yield from of_engines
    for part in () if source is None else source.parts():
        # A kind that no answer needs is reported only if it cannot be read.
        if part.needed or part.failing:
            yield _check_part(part, is_followed=cluster is not None)


def _check_part(part: PartState, *, is_followed: bool) -> Check:
    """Return the check of one resource. A stale resource is ready: the last known objects are better than none."""
    if not (is_followed and part.is_stale):
        return Check(part.name, part.synced, part.detail, degraded=part.refused)
    return Check(part.name, part.synced, part.stale_detail)


class Health(BaseModel):
    """The answer of ``/healthz``: 200, or 500 if a task has ended. Only a new process can restart it."""

    status: str
    ended: list[str] = []


class Readiness(BaseModel):
    """The answer of ``/readyz``: 200 if ready, else 503; both list every check.

    With ``?partial=true``, degraded checks do not count. The server answers every request that does not depend on these
    checks, so a Service should send requests to it.
    """

    ready: bool
    checks: list[Check]


def health_routes(
    checks: Callable[[], Iterable[Check]], ended: Sequence[str], exposition: Callable[[str], tuple[bytes, str]]
) -> APIRouter:
    """Return the routes that kubelets and Prometheus call.

    Args:
        checks: Returns the checks that readiness depends on.
        ended: The tasks that ended by a defect. The list grows while the server runs.
        exposition: Returns the metrics and their content type, for the formats that a client accepts.
    """
    router: Final = APIRouter(tags=["operations"])

    @router.get(
        "/healthz",
        response_model=Health,
        responses={500: {"model": Health}},
        summary="Liveness: whether all tasks of the process run",
    )
    async def healthz() -> JSONResponse:
        if ended:
            return JSONResponse({"status": "failed", "ended": list(ended)}, status_code=500)
        return JSONResponse({"status": "ok"})

    @router.get(
        "/readyz",
        response_model=Readiness,
        responses={503: {"model": Readiness}},
        summary="Readiness: whether to send requests",
    )
    async def readyz(*, partial: bool = False) -> JSONResponse:
        found = list(checks())
        ready = all(check.ok or (partial and check.degraded) for check in found)
        body = {"ready": ready, "checks": [asdict(check) for check in found]}
        return JSONResponse(body, status_code=200 if ready else 503)

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def scrape(request: Request) -> Response:
        text, content_type = exposition(request.headers.get("accept", ""))
        return Response(text, media_type=content_type)

    return router


class HealthOnly:
    """Answers kubelets and Prometheus, refuses any other request, and closes the connection after the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["path"] in _PATHS:
            await self._app(scope, receive, close_after_answer(send))
        else:
            await send_reply(close_after_answer(send), Reply(503, _TOO_MANY, (RETRY_AFTER,)))
