"""The application that hostile documents are sent to: the objects of the examples, and webhooks that answer."""

import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.engines.dispatch_hooks import AUTHORITY
from benchmarks.engines.dispatch_worlds import HOOKS, build_configurations, build_exports, build_hooks
from benchmarks.engines.worst_bases import EXAMPLES, load
from fleethook.app import Fleethook, create_app
from fleethook.server.reviews.http_checks import EXTENSION, make_client_extension
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import settle_garbage_collector

PHASES = ("mutating", "validating")
CALLER = "kube-apiserver"
EXTENSIONS: dict[str, Any] = {
    "tls": {"client_cert_name": f"commonName={CALLER}"},
    EXTENSION: make_client_extension({"subject": ((("commonName", CALLER),),)}),
}
"""Of the requests: the caller may ask on all routes."""


@contextlib.asynccontextmanager
async def application(directory: Path, port: int) -> AsyncIterator[Fleethook]:
    """Run the application.

    Args:
        directory: Has the authority of the webhooks.
        port: Of the webhooks.
    """
    settings: dict[str, Any] = {"dispatch_callers": [CALLER], "client_ca_file": directory / "ca.crt"}
    app = create_app(Settings(**settings), log=lambda _: None)
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for document in load(path):
            if path.parent.name != "testdata" and "apiVersion" in document:
                app.store.put(document)
    for document in build_exports(1):
        app.store.put(document)
    authority = (directory / AUTHORITY).read_bytes()
    for phase in PHASES:
        urls = [_hook(f"https://localhost:{port}/{phase}/{number}", authority) for number in range(HOOKS)]
        for document in build_configurations(build_hooks(["widgets"], urls), phase):
            app.store.put(document)
    async with app.router.lifespan_context(app):
        settle_garbage_collector()
        yield app


def _hook(url: str, authority: bytes) -> dict[str, str]:
    return {"url": url, "caBundle": base64.b64encode(authority).decode()}
