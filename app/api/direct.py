"""uvicorn's HTTP protocol, with reviews answered in it: without a task, an ASGI channel and the objects around them.

A request takes this path if it is a POST to an endpoint that answers at once, has arrived whole in one read, and
nothing else happens on its connection. `_find_endpoint` decides when the headers are known, `_settle` once everything
that was read has been parsed. Any other request is started as uvicorn starts it, by the same calls in the same order.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from app.api.bodies import client_of
from app.api.closing import ClosingProtocol
from app.api.endpoint import Endpoint
from app.api.reply import JSON_TYPE, Reply, send_reply
from app.api.sending import PIECE_BYTES

FindEndpoint = Callable[[str], Endpoint | None]
"""Returns the endpoint that may answer POSTs to a path at once."""


class _Answered(NamedTuple):
    """Stands for uvicorn's cycle of a request that was answered here."""

    message_event: asyncio.Event
    response_started: bool = True
    response_complete: bool = True


# It never changes and nobody waits for its event, so all connections share it.
_ANSWERED: Final[Any] = _Answered(asyncio.Event())


class _Heads:
    """The beginnings of answers. The headers of uvicorn in them change each second."""

    def __init__(self) -> None:
        self._defaults: list[tuple[bytes, bytes]] | None = None
        self._beginnings: dict[int, bytes] = {}

    def encode(self, reply: Reply, defaults: list[tuple[bytes, bytes]]) -> bytes:
        """Return an answer as uvicorn writes it; ``defaults`` are the headers that each answer has."""
        if defaults is not self._defaults:
            self._defaults, self._beginnings = defaults, {}
        beginning = self._beginnings.get(reply.status)
        if beginning is None:
            lines = [b"%b: %b\r\n" % header for header in (*defaults, JSON_TYPE)]
            beginning = b"".join((STATUS_LINE[reply.status], *lines, b"content-length: "))
            self._beginnings[reply.status] = beginning
        further = b"".join([b"%b: %b\r\n" % header for header in reply.headers])
        return b"%b%d\r\n%b\r\n%b" % (beginning, len(reply.body), further, reply.body)


class DirectProtocol(ClosingProtocol):
    """Answers a request at once if that needs no waiting, and leaves every other one to the ASGI app."""

    _heads: Final = _Heads()

    def __init__(self, *args: Any, find_endpoint: FindEndpoint | None, **kwargs: Any) -> None:
        """Prepare.

        Args:
            args: As uvicorn's protocol has them.
            find_endpoint: Finds endpoints that answer at once; None to leave all requests to the ASGI app.
            kwargs: As uvicorn's protocol has them.
        """
        super().__init__(*args, **kwargs)
        self._find: Final = find_endpoint
        self._pending: Endpoint | None = None
        self._parts: list[bytes] = []
        self._is_whole = False
        self._client = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        super().connection_made(transport)
        self._client = client_of(self.client)

    def on_message_begin(self) -> None:
        """Begin with a request; if another one arrived before it in the same read, both wait for their turn."""
        if self._pending is not None:
            self._start(self.app)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Choose the path of a request."""
        self._pending = self._find_endpoint()
        if self._pending is None:
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Leave a body without Content-Length to the app, which limits it as it reads it."""
        if self._pending is not None:
            self._start(self.app)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._pending is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """Take the end of the request."""
        if self._pending is None:
            super().on_message_complete()
        else:
            self._is_whole = True

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and answer the request in it."""
        super().data_received(data)
        if self._pending is not None:
            self._settle(self._pending)

    def _find_endpoint(self) -> Endpoint | None:
        """Return the endpoint that may answer the request whose headers have arrived, None to leave it to the app."""
        parser, flow, url = self.parser, self.flow, self.url
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request, whatever its type says
        is_usual = (
            self._find is not None
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.expect_100_continue
            # An absolute URL, a fragment or an escaped character is for uvicorn to understand.
            and url.startswith(b"/")
            and not (b"%" in url or b"#" in url)
        )
        is_free = (
            (cycle is None or cycle.response_complete)
            and not (self.pipeline or flow.read_paused or flow.write_paused or self._shutting_down)
            and not self.transport.is_closing()
        )
        if not is_usual or not is_free or self._find is None:
            return None
        raw_path, _, query = url.partition(b"?")
        try:
            path = raw_path.decode("ascii")
        except UnicodeDecodeError:
            return None
        endpoint = self._find(path)
        if endpoint is not None:
            self.scope["method"] = "POST"
            self.scope["path"] = path
            self.scope["raw_path"] = raw_path
            self.scope["query_string"] = query
        return endpoint

    def _settle(self, endpoint: Endpoint) -> None:
        """Answer the pending request, or leave it to the app if it is not whole or has to wait."""
        if self.transport.is_closing():
            # The bytes after the request were no HTTP. The client has been told so.
            self._forget()
            return
        begun = self._begin(endpoint) if self._is_whole else None
        if isinstance(begun, Reply):
            if len(begun.body) <= PIECE_BYTES:
                self._forget()
                self.cycle = _ANSWERED
                self.transport.write(self._heads.encode(begun, self.server_state.default_headers))
                self.on_response_complete()
                return
            begun = _replying(begun)
        self._start(self.app if begun is None else begun)

    def _begin(self, endpoint: Endpoint) -> Reply | ASGIApp | None:
        scope = cast("Scope", self.scope)
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        try:
            return endpoint.begin(scope, body, client=self._client)
        except Exception as error:  # noqa: BLE001 - logged and answered by uvicorn
            return _failing(error)

    def _start(self, app: Any) -> None:
        """Have an app answer the pending request, and give it what has arrived, as uvicorn would have."""
        parts, is_whole = self._parts, self._is_whole
        self._forget()
        usual, self.app = self.app, app
        try:
            super().on_headers_complete()
        finally:
            self.app = usual
        for part in parts:
            super().on_body(part)
        if is_whole:
            super().on_message_complete()

    def _forget(self) -> None:
        self._pending, self._parts, self._is_whole = None, [], False


def _replying(reply: Reply) -> ASGIApp:
    """Return an app that sends an answer in pieces, as the client reads them."""

    async def send_it(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_reply(send, reply)

    return send_it


def _failing(error: Exception) -> ASGIApp:
    """Return an app that fails as an endpoint has failed."""

    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    return fail
