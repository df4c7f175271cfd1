"""The checks and headers of every request, before any page: Host, origin of a POST, size, number of requests."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 4 << 20
"""The largest body of a form. An object in etcd has at most 1.5 MiB."""
MAX_REQUESTS: Final = 32
"""The most requests in progress; further ones get 503."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With no-referrer, a browser sends `Origin: null` with the forms of the console itself (Fetch standard, "append a
    # request Origin header"), which `_comes_from_own_page` refuses.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
_NO_STORE: Final = (b"cache-control", b"no-store")


class RequestGuard:
    """Refuses requests that no browser of a user sends to this console, and adds the headers that protect a page."""

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str] | None, limit: int = MAX_REQUESTS, open_paths: Collection[str] = ()
    ) -> None:
        """Prepare.

        Args:
            app: The pages.
            hosts: The names by which the console may be called, None for any. On a loopback address, nobody needs
                credentials, so a page of a foreign name that resolves to it (DNS rebinding) must not be answered.
            limit: The most requests in progress.
            open_paths: Paths of GET requests that are always answered: a kubelet calls them by the address of a Pod,
                and would end a console that is only busy.
        """
        self._app: Final = app
        self._hosts: Final = None if hosts is None else frozenset(hosts)
        self._limit: Final = limit
        self._open_paths: Final = frozenset(open_paths)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _add_headers(send, secure=scope["scheme"] == "https")
        if scope["method"] == "GET" and scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        if (refusal := self._find_refusal(scope)) is not None:
            status, text = refusal
            await PlainTextResponse(text + "\n", status_code=status)(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and message of a refusal, None if the request may pass."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._knows_host(headers.get("host", "")):
            return (
                421,
                "421: this console does not answer to this host name; use its own address, or a name of --allowed-host",
            )
        if scope["method"] not in _METHODS:
            return 405, "405: the console is read-only; use GET or POST"
        if scope["method"] == "POST" and not _comes_from_own_page(headers, scope["scheme"]):
            return 403, "403: the form was sent by a page of another origin"
        if _read_length(headers) > MAX_BODY_BYTES:
            return 413, f"413: the body is larger than {MAX_BODY_BYTES} bytes"
        if self._running >= self._limit:
            return 503, "503: too many requests are in progress; try again"
        return None

    def _knows_host(self, host: str) -> bool:
        if self._hosts is None:
            return True
        try:
            return urlsplit(f"//{host}").hostname in self._hosts
        except ValueError:
            return False


def loopback_names(host: str) -> Sequence[str]:
    """Return the names by which a console on a loopback address may be called."""
    return (*_LOOPBACK_NAMES, host.lower())


def _comes_from_own_page(headers: dict[str, str], scheme: str) -> bool:
    """Return whether a browser sent a form from a page of the same origin; programs send neither header."""
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or origin == f"{scheme}://{headers.get('host', '')}"


def _read_length(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isdecimal() and len(length) < 16 else MAX_BODY_BYTES + 1


def _add_headers(send: Send, *, secure: bool) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            headers += [*_HEADERS, *([_HSTS] if secure else [])]
            if not any(name == _NO_STORE[0] for name, _ in headers):
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers
