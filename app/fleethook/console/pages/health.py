"""``/healthz`` and ``/readyz``: the probes of a kubelet, which has no credentials. They tell nothing about objects."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from fleethook.console.rendering import find_context

PATHS: Final = frozenset({"/healthz", "/readyz"})

router: Final = APIRouter()


@router.get("/healthz")
async def show_health() -> PlainTextResponse:
    """Answer as long as the event loop turns."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def show_readiness(request: Request) -> PlainTextResponse:
    """Answer 503 until each kind was read, or could not be read: a page then shows the reason."""
    if all(part.synced or part.failing or not part.needed for part in find_context(request).parts()):
        return PlainTextResponse("ready\n")
    return PlainTextResponse("reading the objects\n", status_code=503)
