"""uvicorn's HTTP protocol, which answers reviews itself, without an ASGI channel and its objects.

A request takes this path if it is a POST to an endpoint that `FindEndpoint` finds, and nothing else happens on its
connection. `_find_endpoint` decides when the headers are known, `_settle` once all bytes of a read have been parsed.
Most reviews arrive in several reads, because a TLS record has 16 KiB at most; the protocol collects them. An answer
that takes time has a task, for which the further requests of the connection wait. The protocol starts any other request
by the same calls as uvicorn, in the same order, with the bytes that were collected.

The parser does not read a head that equals a former one of its connection
(`fleethook.server.protocol.repeated_head`). If such a request has to be left to the app, the parser reads all of its
bytes first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from fleethook.fair_limits import client_of
from fleethook.server.protocol.bodies import PIECE_BYTES, BodyCharge, Reply, RequestError
from fleethook.server.protocol.connections import ClosingProtocol
from fleethook.server.protocol.repeated_head import KnownHeads
from fleethook.server.reviews.http_checks import CHARGE, Endpoint, refuse
from fleethook.work.threads_and_gc import finish

FindEndpoint = Callable[[str], Endpoint | None]
"""Returns the endpoint that answers POSTs to a path here."""


class _Cycle:
    """Replaces uvicorn's cycle of a request that is answered here; uvicorn sets the last two members."""

    message_event: Final = asyncio.Event()  # No task waits for it.
    response_started: Final = False

    def __init__(self, *, response_complete: bool) -> None:
        self.response_complete = response_complete
        self.keep_alive = True
        self.disconnected = False


# All connections share it, because it never changes.
_ANSWERED: Final[Any] = _Cycle(response_complete=True)
_CLOSE: Final = (b"connection", b"close")
_FAILURE: Final = b"Internal Server Error"
_FAILURE_HEADERS: Final = ((b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21"))


class DirectProtocol(ClosingProtocol):
    """Answers the usual requests of known endpoints, and leaves every other request to the ASGI app."""

    def __init__(self, *args: Any, find_endpoint: FindEndpoint | None, **kwargs: Any) -> None:
        """Prepare.

        Args:
            args: As in uvicorn's protocol.
            find_endpoint: Finds endpoints that answer here; None to leave all requests to the ASGI app.
            kwargs: As in uvicorn's protocol.
        """
        super().__init__(*args, **kwargs)
        self._find: Final[FindEndpoint] = find_endpoint or (lambda _path: None)
        self._pending: Endpoint | None = None
        self._body = b""
        self._is_complete = False
        self._charge: BodyCharge | None = None
        self._client = ""
        self._known: Final = KnownHeads()
        # Of a request that the parser has not read: the head, and the number of bytes of the body still to arrive.
        self._unparsed_head: bytes | None = None
        self._missing = 0
        self._is_between_messages = True
        self._begun_messages = 0
        self._is_catching_up = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        super().connection_made(transport)
        self._client = client_of(self.client)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget an incomplete request: its client has gone."""
        self.forget_pending()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Leave an incomplete request to the app, and close the connection after its answer."""
        if self._pending is not None:
            self._start()
        super().shutdown()

    @property
    def is_collecting(self) -> bool:
        """Whether a part of a request has arrived that this protocol has not passed to the app."""
        return self._charge is not None

    def on_message_begin(self) -> None:
        """Begin with a request. If an earlier request arrived in the same read, the app answers both in their order."""
        self._is_between_messages = False
        self._begun_messages += 1
        if self._pending is not None and not self._is_catching_up:
            self._start()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Choose the path of a request."""
        if self._is_catching_up:
            return
        self._pending = self._find_endpoint()
        if self._pending is None:
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Leave a body without Content-Length to the app, which limits it as it reads it."""
        if self._pending is not None:
            self._start()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._is_catching_up:
            return
        if self._pending is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """Take the end of the request."""
        self._is_between_messages = True
        if self._is_catching_up:
            return
        if self._pending is None:
            super().on_message_complete()
        else:
            self._is_complete = True

    def data_received(self, data: bytes) -> None:
        """Parse the bytes of a read, and answer the request in them."""
        if self._unparsed_head is not None and self._pending is not None:
            if len(data) <= self._missing:
                self._grow_repeated(self._pending, data)
                return
            self._catch_up()  # Another request follows.
        elif self._begin_repeated(data):
            return
        is_first = self._is_between_messages
        self._begun_messages = 0
        super().data_received(data)
        if self._pending is not None:
            if is_first and self._begun_messages == 1:
                self._known.add(data, self.headers, cast("dict[str, Any]", self.scope))
            self._settle(self._pending)

    def _begin_repeated(self, data: bytes) -> bool:
        """Begin with a request whose head equals a former one; return False if the parser has to read it."""
        found = self._known.find(data) if self._is_between_messages else None
        if found is None:
            return False
        repeated, scope = found
        if len(repeated.body) > repeated.length or not self._is_free():
            return False
        endpoint = self._find(scope["path"])
        # The scope of the former request has passed the checks of its head. Only the length may differ.
        if endpoint is None or repeated.length > endpoint.body_limit:
            return False
        self._unset_keepalive_if_required()
        self.headers = repeated.headers
        self.scope = {**scope, "headers": repeated.headers}  # type: ignore[typeddict-item]
        self._pending = endpoint
        self._unparsed_head = repeated.text
        self._missing = repeated.length
        self._grow_repeated(endpoint, repeated.body)
        return True

    def _grow_repeated(self, endpoint: Endpoint, data: bytes) -> None:
        """Take a part of the body of a request that the parser does not read."""
        self._missing -= len(data)
        self._is_complete = not self._missing
        self._body += data
        self.note_unparsed(is_complete=self._is_complete)
        self._settle(endpoint)

    def note_unparsed(self, *, is_complete: bool) -> None:
        """Take note of a part of a request that the parser does not read."""

    def _catch_up(self) -> None:
        """Make the parser read the pending request, unless it has read it. Nothing else changes."""
        if self._unparsed_head is None:
            return
        data, self._unparsed_head = b"".join((self._unparsed_head, self._body)), None
        scope = self.scope
        self._is_catching_up = True
        try:
            self.parser.feed_data(data)
        finally:
            self._is_catching_up = False
        self.scope = scope

    def _find_endpoint(self) -> Endpoint | None:
        """Return the endpoint that may answer the request whose headers have arrived, None to leave it to the app."""
        parser = self.parser
        is_usual = (
            parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.expect_100_continue
        )
        if not is_usual or not self._is_free():
            return None
        try:
            # uvicorn uses this function, too. It answers 400 to a URL that llhttp accepts and this function refuses.
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            return None
        # uvicorn decodes escaped characters in a path; the name of a logical cluster may have some.
        if not (url.path and url.path.isascii()) or b"%" in url.path:
            return None
        path = url.path.decode("ascii")
        endpoint = self._find(path)
        if endpoint is not None:
            self.scope["method"] = "POST"
            self.scope["path"] = path
            self.scope["raw_path"] = url.path
            self.scope["query_string"] = url.query or b""
        return endpoint

    def _is_free(self) -> bool:
        """Return whether the connection has nothing else to do or to send."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request, in spite of its type
        return (
            (cycle is None or cycle.response_complete)
            and not (self.pipeline or self.flow.read_paused or self.flow.write_paused or self._shutting_down)
            and not self.transport.is_closing()
        )

    def _settle(self, endpoint: Endpoint) -> None:
        """Answer the pending request, wait for the rest of it, or leave it to the app."""
        if self.transport.is_closing():
            # The connection is being closed, so no client waits for the answer.
            self.forget_pending()
            return
        if not self._is_complete:
            if not self._collect(endpoint):
                self._start()
            return
        answered = self._answer(endpoint)
        if answered is None:
            self._start()
            return
        self.forget_pending()
        if isinstance(answered, Reply):
            self.cycle = _ANSWERED
            self.transport.write(self._encode(answered.status, answered.all_headers(), answered.body))
            self.on_response_complete()
        else:
            task = self.loop.create_task(answered)
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _send_later(
        self, answering: Awaitable[Reply], endpoint: Endpoint, charge: BodyCharge, cycle: Any
    ) -> None:
        """Send an answer that takes time. Meanwhile, uvicorn keeps further requests of the connection."""
        endpoint.metrics.in_flight += 1
        try:
            reply = await answering
            status, headers, body = reply.status, reply.all_headers(), reply.body
        except BaseException as error:
            self.logger.error("Exception in ASGI application\n", exc_info=error)  # noqa: TRY400 - as uvicorn logs it
            status, headers, body = 500, [*_FAILURE_HEADERS], _FAILURE
            cycle.keep_alive = False
        try:
            answer = self._encode(status, headers if cycle.keep_alive else [*headers, _CLOSE], body)
            for start in range(0, len(answer), PIECE_BYTES):
                await self.flow.drain()
                if not self.transport.is_closing():
                    self.transport.write(answer[start : start + PIECE_BYTES])
        finally:
            endpoint.metrics.in_flight -= 1
            charge.give_back()
        cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _encode(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
        """Return an answer in uvicorn's format."""
        lines = map(b": ".join, (*self.server_state.default_headers, *headers))
        return STATUS_LINE[status] + b"\r\n".join((*lines, b"", body))

    def _collect(self, endpoint: Endpoint) -> bool:
        """Keep the part of a body that has arrived; return False if the app has to read it."""
        if len(self._body) > endpoint.max_at_once:
            return False
        if self._charge is None:
            scope = cast("Scope", self.scope)
            try:
                endpoint.admit(scope)
            except RequestError:
                return False
            self._charge = endpoint.charge(scope, self._client)
            endpoint.metrics.in_flight += 1
        return self._charge.take(len(self._body) - self._charge.size)

    def _answer(self, endpoint: Endpoint) -> Reply | Coroutine[Any, Any, None] | None:
        """Return the answer to the pending request, which is complete, or its sending; None leaves it to the app."""
        scope: Any = self.scope
        body, charge = self._body, self._charge
        if len(body) > endpoint.max_at_once or (charge is not None and not self._may_still_answer(endpoint)):
            return None
        is_admitted, charge = charge is not None, charge or BodyCharge(endpoint.bodies, self._client)
        try:
            if not is_admitted:
                endpoint.admit(scope)
            if not charge.has_room(len(body)):
                return None
            scope[CHARGE] = charge
            answered = endpoint.answer(scope, body)
        except RequestError as error:
            return refuse(error)
        except BaseException as error:  # noqa: BLE001 - each gets an answer, even `sys.exit` of an interpreter
            answered = _fail(error)
        if isinstance(answered, Reply) and len(answered.body) <= PIECE_BYTES:
            return answered
        charge.take_decoded(len(body))
        self._end_collecting(releases=False)
        self.cycle = cycle = cast("Any", _Cycle(response_complete=False))
        return self._send_later(finish(answered), endpoint, charge, cycle)

    def _may_still_answer(self, endpoint: Endpoint) -> bool:
        """Return whether a request that arrived in several reads may still be answered here."""
        return self._find(self.scope["path"]) is endpoint and self._is_free()

    def _start(self) -> None:
        """Have the app answer the pending request, and pass the bytes that arrived to it, as uvicorn would have."""
        self._catch_up()
        body, is_complete = self._body, self._is_complete
        self.forget_pending()
        super().on_headers_complete()
        if body:
            super().on_body(bytes(body))
        if is_complete:
            super().on_message_complete()

    def forget_pending(self) -> None:
        """Drop the pending request and its memory."""
        self._end_collecting()
        self._pending, self._body, self._is_complete = None, b"", False
        self._unparsed_head = None

    def _end_collecting(self, *, releases: bool = True) -> None:
        """Stop counting a request whose body arrives; release its memory, unless an app goes on with the request."""
        charge, self._charge = self._charge, None
        if charge is not None and self._pending is not None:
            self._pending.metrics.in_flight -= 1
            if releases:
                charge.give_back()


async def _fail(error: BaseException) -> Reply:
    raise error
