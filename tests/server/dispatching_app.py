"""An app with logical clusters whose webhooks match Widgets and Gadgets only; it calls none of them."""

from pathlib import Path
from typing import Any

from fleethook.app import Fleethook
from fleethook.server.log import LogSink
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    namespace,
    webhook,
    workspace,
)
from tests.server.direct_connections import app_for_tests

CALLER = "kube-apiserver"
DIRECT = 1
BY_ASGI = 2
"""Writes of an answer: head and body together, or one after the other."""
NAMED: dict[str, Any] = {"dispatch_callers": (CALLER,), "client_ca_file": Path("ca.crt")}
NEVER = [{"name": "never", "expression": "object.metadata.name == 'nobody'"}]


def documents() -> list[dict[str, Any]]:
    """Return a cluster with webhooks about Widgets only, and one cluster that uses an export of another.

    No webhook is called: the condition of each is false.
    """
    hook = webhook(rules=[WIDGETS], matchConditions=NEVER)
    return [
        namespace("a"),
        definition("a", "widgets.example.org", "v1"),
        *(configuration("a", phase, hook) for phase in ("mutating", "validating")),
        workspace("root", "org", "a"),
        binding("ws3", "ws1", "gadgets.example.org"),
        export("ws1", "gadgets.example.org"),
        configuration("ws1", "mutating", hook),
        binding("ws4", "gone", "gadgets.example.org"),
    ]


def dispatching(log: LogSink | None = None, **settings: Any) -> Fleethook:
    app = app_for_tests(log, **settings)
    for document in documents():
        app.store.put(document)
    app.engines["dispatch"].synced.set()
    return app
