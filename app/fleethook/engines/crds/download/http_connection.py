"""Sends one request over a connection of its own, direct or through a proxy (urllib3)."""

import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from functools import partial
from http.client import HTTPResponse, parse_headers
from typing import Any, ClassVar, Final, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Timeout, make_headers

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.dial import SCHEMES, dial_host, dial_through_socks, parse_socks_proxy
from fleethook.engines.crds.download.retries import CONNECT_SECONDS, IDLE_SECONDS, Deadline, MalformedError
from fleethook.engines.crds.http_source import redact
from fleethook.outbound.addresses import PrivateAddressError

# It logs each request with its query, which may have the signature of a signed URL.
_LOGGER: Final = logging.getLogger("urllib3.connectionpool")
MAX_INTERIM_RESPONSES: Final = 100
_SWITCHING_PROTOCOLS: Final = 101


class Request(NamedTuple):
    """A GET request, and the proxy and TLS settings for it."""

    url: str
    headers: Mapping[str, str]
    context: ssl.SSLContext
    proxy_url: str = ""
    proxy_context: ssl.SSLContext | None = None
    """TLS context for an https proxy."""
    allow_private: bool = True
    """Whether the host may have a private address; applies if its name is resolved here."""
    allow_private_proxy: bool = True


class _Dial(Protocol):
    def __call__(self, host: str, port: int) -> socket.socket: ...


@contextlib.contextmanager
def send_request(request: Request, deadline: Deadline) -> Iterator[BaseHTTPResponse]:
    """Send a GET and yield the response, its body unread and undecoded; the caller handles redirects and statuses.

    Raises:
        CRDsError: The proxy URL cannot be used.
        AttemptError: A SOCKS proxy refuses.
        urllib3.exceptions.HTTPError: Any other failure. That of a private address, if these are not allowed, is a
            ProtocolError with the PrivateAddressError.
    """
    _LOGGER.setLevel(max(_LOGGER.level, logging.INFO))
    proxy = _split_proxy_url(request.proxy_url)
    with _build_manager(request, proxy) as manager:
        dial = _choose_dialler(request, proxy, deadline)
        manager.pool_classes_by_scheme = {
            scheme: _make_pool_class(pool, dial) for scheme, pool in manager.pool_classes_by_scheme.items()
        }
        response = manager.urlopen(
            "GET",
            request.url,
            headers=dict(request.headers),
            timeout=Timeout(connect=CONNECT_SECONDS, read=IDLE_SECONDS),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        try:
            yield response
        finally:
            # Closed, not released to the pool: draining the rest of a body may take forever.
            response.close()


def _split_proxy_url(proxy_url: str) -> SplitResult:
    try:
        parts = urlsplit(proxy_url)
    except ValueError:
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {redact(proxy_url)}: it must have a host") from None
    if "@" in parts.path + parts.query + parts.fragment:
        # A password with an unescaped slash: the apparent host is a part of the secret.
        raise CRDsError(Exit.USAGE, "invalid proxy URL: percent-encode the user and the password before its @")
    return parts


def _build_manager(request: Request, parts: SplitResult) -> urllib3.PoolManager:
    if not request.proxy_url or parts.scheme in SCHEMES:
        # A SOCKS proxy works below HTTP: requests through it are the same as without it.
        return urllib3.PoolManager(ssl_context=request.context)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = redact(request.proxy_url)
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {shown}: it must be http, https or socks5")
    headers: dict[str, str] = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = dict(make_headers(proxy_basic_auth=pair.encode().decode("latin-1")))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query="", fragment="").geturl()
    return urllib3.ProxyManager(
        bare, proxy_headers=headers, proxy_ssl_context=request.proxy_context, ssl_context=request.context
    )


def _choose_dialler(request: Request, parts: SplitResult, deadline: Deadline) -> _Dial:
    """Return the function that connects to urllib3's peer: the origin, or the HTTP proxy in front of it."""
    behind, proxied = request.allow_private, request.allow_private_proxy
    if parts.scheme in SCHEMES:
        proxy = parse_socks_proxy(parts)
        return partial(dial_through_socks, proxy, deadline=deadline, allow_private=behind, allow_private_proxy=proxied)
    return partial(dial_host, deadline=deadline, allow_private=proxied if request.proxy_url else behind)


def _make_pool_class(pool: Any, dial: _Dial) -> Any:
    """Return a pool class whose connections are made by ``dial``."""
    connection = type("Made", (_DialledConnection, pool.ConnectionCls), {"dial": staticmethod(dial)})
    return type("PoolOfMade", (pool,), {"ConnectionCls": connection})


class _Response(HTTPResponse):
    def _read_status(self) -> tuple[str, int, str]:
        """Return the status of the final response; http.client itself skips only the interim response 100.

        Source: RFC 9110, 15.2.
        """
        for _ in range(MAX_INTERIM_RESPONSES + 1):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 <= status < 200 or status == _SWITCHING_PROTOCOLS:
                return version, status, reason
            parse_headers(self.fp)
        raise MalformedError(f"more than {MAX_INTERIM_RESPONSES} interim responses (HTTP 1xx)")

    def begin(self) -> None:
        super().begin()
        # RFC 9112, 6.3: different lengths are an attack or a bug. urllib3 refuses them too, but leaves the socket open.
        lengths = self.headers.get_all("Content-Length", [])
        if len({length.strip() for line in lengths for length in line.split(",")}) > 1:
            raise MalformedError("two different Content-Length values")


class _DialledConnection(HTTPConnection):
    response_class = _Response
    dial: ClassVar[_Dial]

    def _new_conn(self) -> socket.socket:
        try:
            return self.dial(self._dns_host, self.port)
        except PrivateAddressError:
            raise
        except OSError as error:
            # urllib3 takes a reset or a broken pipe for a failure after the request, and would try to read a response.
            raise NewConnectionError(self, "") from error
