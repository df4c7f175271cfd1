"""``/healthz``, ``/readyz`` and ``/metrics``."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from app.api.metrics import Metrics


class Check(NamedTuple):
    """One thing that readiness depends on, or wants to tell."""

    name: str
    ok: bool
    detail: str


class CheckReport(BaseModel):
    """One check, as ``/readyz`` shows it."""

    name: str
    ok: bool
    detail: str


class Readiness(BaseModel):
    """What ``/readyz`` answers: 200 when ready, 503 when not, and every check either way."""

    ready: bool
    checks: list[CheckReport]


def health_routes(checks: Callable[[], Iterable[Check]], metrics: Metrics) -> APIRouter:
    """Return the routes that kubelets and Prometheus call."""
    router: Final = APIRouter(tags=["operations"])

    @router.get("/healthz", summary="Whether the process answers at all")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", response_model=Readiness, responses={503: {"model": Readiness}}, summary="Whether to call")
    async def readyz() -> JSONResponse:
        found = list(checks())
        ready = all(check.ok for check in found)
        body = {"ready": ready, "checks": [check._asdict() for check in found]}
        return JSONResponse(body, status_code=200 if ready else 503)

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def scrape(request: Request) -> Response:
        text, content_type = metrics.exposition(request.headers.get("accept", ""))
        return Response(text, media_type=content_type)

    return router
