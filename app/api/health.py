"""``/healthz``, ``/readyz`` and ``/metrics``."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.codec import encode_error
from app.api.endpoint import respond
from app.api.sending import closing

_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_TOO_MANY: Final = encode_error(
    503,
    "ServiceUnavailable",
    "the server has as many connections as the setting max_connections allows, and all are being answered; try again "
    "later",
)


class Check(NamedTuple):
    """One thing that readiness depends on, or wants to tell."""

    name: str
    ok: bool
    detail: str
    degraded: bool = False
    """Whether a check that is not ok is no reason to send requests elsewhere: another replica could not do better."""


class CheckReport(BaseModel):
    """One check, as ``/readyz`` shows it."""

    name: str
    ok: bool
    detail: str
    degraded: bool


class Health(BaseModel):
    """What ``/healthz`` answers: 200, or 500 when something has ended that only a new process brings back."""

    status: str
    ended: list[str] = []


class Readiness(BaseModel):
    """What ``/readyz`` answers: 200 when ready, 503 when not, and every check either way.

    With ``?partial=true`` checks that are degraded do not count: the server answers every request that does not depend
    on them, and a Service should send it requests.
    """

    ready: bool
    checks: list[CheckReport]


def health_routes(
    checks: Callable[[], Iterable[Check]], ended: Sequence[str], exposition: Callable[[str], tuple[bytes, str]]
) -> APIRouter:
    """Return the routes that kubelets and Prometheus call.

    Args:
        checks: What readiness depends on.
        ended: What has ended that should not have; grows while the server runs.
        exposition: Returns what is scraped and its content type, for the formats that a client accepts.
    """
    router: Final = APIRouter(tags=["operations"])

    @router.get(
        "/healthz", response_model=Health, responses={500: {"model": Health}}, summary="Whether the process is whole"
    )
    async def healthz() -> JSONResponse:
        if ended:
            return JSONResponse({"status": "failed", "ended": list(ended)}, status_code=500)
        return JSONResponse({"status": "ok"})

    @router.get("/readyz", response_model=Readiness, responses={503: {"model": Readiness}}, summary="Whether to call")
    async def readyz(*, partial: bool = False) -> JSONResponse:
        found = list(checks())
        ready = all(check.ok or (partial and check.degraded) for check in found)
        body = {"ready": ready, "checks": [check._asdict() for check in found]}
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
            await self._app(scope, receive, closing(send))
        else:
            await respond(closing(send), 503, _TOO_MANY, (b"retry-after", b"1"))
