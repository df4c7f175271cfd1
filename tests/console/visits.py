"""Visits to a console without a server."""

from typing import Any
from urllib.parse import urlencode

from fleethook.cluster.store import Store
from fleethook.console.console_server import console_indexes, create_console
from fleethook.console.context import ConsoleContext
from tests.asgi_client import Answer, call


def make_context(*documents: dict[str, Any], **fields: Any) -> ConsoleContext:
    """Return a context whose store has these objects."""
    store = Store(console_indexes())
    for one in documents:
        store.put(one)
    return ConsoleContext(store, **fields)


async def visit(app: Any, path: str, *, query: str = "", method: str = "GET", **headers: str) -> Answer:
    """Request a page as a browser of this machine does."""
    given = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await call(app, path, b"", None, method=method, headers=given, query=query.encode())


async def send_form(app: Any, path: str, fields: dict[str, str], **headers: str) -> Answer:
    """Send a form."""
    kind = {"content-type": "application/x-www-form-urlencoded", "host": "localhost"}
    given = {**kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await call(app, path, urlencode(fields).encode(), headers=given, query=b"")


def console_of(*documents: dict[str, Any], **fields: Any) -> Any:
    """Return the application of a console with these objects."""
    return create_console(make_context(*documents, **fields))
