"""One request over a connection of its own, direct or through a proxy (urllib3)."""

import contextlib
import importlib.util
import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPResponse
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.response import BaseHTTPResponse
from urllib3.util import Timeout, make_headers

from app.crds.download.cutoff import Cutoff
from app.crds.download.reasons import MalformedError
from app.crds.download.redaction import redacted
from app.crds.download.timing import CONNECT_SECONDS, IDLE_SECONDS
from app.crds.failures import CRDsError, Exit
from app.outbound.addresses import is_private, refuse_private_number

_SOCKS: Final = ("socks5", "socks5h")
# It logs each request with its query, which may be a signed URL's.
_LOGGER: Final = logging.getLogger("urllib3.connectionpool")


class Request(NamedTuple):
    """What is asked of whom, and how."""

    url: str
    headers: Mapping[str, str]
    context: ssl.SSLContext
    proxy_url: str = ""
    proxy_context: ssl.SSLContext | None = None
    """For a proxy that is itself spoken to over TLS."""
    allow_private: bool = True
    """Whether what is dialled, the host or its proxy, may have a private address."""


class PrivateError(Exception):
    """A host that is a private address, and may not be asked."""


@contextlib.contextmanager
def answer_to(request: Request, cutoff: Cutoff) -> Iterator[BaseHTTPResponse]:
    """Send a GET and yield the response with its body unread and undecoded; redirects and failures are the caller's.

    Raises:
        CRDsError: The proxy is none that can be used.
        PrivateError: A private address would have to be dialled, and may not.
        urllib3.exceptions.HTTPError: All else.
    """
    _LOGGER.setLevel(max(_LOGGER.level, logging.INFO))
    with _manager(request) as manager:
        manager.pool_classes_by_scheme = {
            scheme: _watched_pool(pool, cutoff, request.allow_private)
            for scheme, pool in manager.pool_classes_by_scheme.items()
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
            # Not given back: what is left of a body may have no end.
            response.close()


def _manager(request: Request) -> urllib3.PoolManager:
    proxy = request.proxy_url
    if not proxy:
        return urllib3.PoolManager(ssl_context=request.context)
    parts = urlsplit(proxy)
    if parts.scheme in _SOCKS:
        return _socks(request)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {redacted(proxy)}: it must be http, https or socks5")
    headers: dict[str, str] = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = dict(make_headers(proxy_basic_auth=pair.encode().decode("latin-1")))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query="", fragment="").geturl()
    return urllib3.ProxyManager(
        bare, proxy_headers=headers, proxy_ssl_context=request.proxy_context, ssl_context=request.context
    )


def _socks(request: Request) -> urllib3.PoolManager:
    if importlib.util.find_spec("socks") is None:
        raise CRDsError(Exit.USAGE, "a SOCKS proxy needs the package PySocks, which is not installed")
    from urllib3.contrib.socks import SOCKSProxyManager  # noqa: PLC0415 - warns on import where PySocks is missing

    return SOCKSProxyManager(request.proxy_url, ssl_context=request.context)


def _watched_pool(pool: Any, cutoff: Cutoff, allow_private: bool) -> Any:  # noqa: FBT001 - handed through
    """Return a pool class whose connections are watched, and judged if need be, from their first moment."""
    members = {"cutoff": cutoff, "allow_private": allow_private}
    connection = type("Watched", (_Watched, pool.ConnectionCls), members)
    return type("WatchedPool", (pool,), {"ConnectionCls": connection})


class _Response(HTTPResponse):
    def begin(self) -> None:
        super().begin()
        # RFC 9112 6.3: lengths that differ are an attack or a bug. urllib3 says so, too, but leaves the socket open.
        lengths = self.headers.get_all("Content-Length", [])
        if len({length.strip() for line in lengths for length in line.split(",")}) > 1:
            raise MalformedError


class _Watched(HTTPConnection):
    response_class = _Response
    cutoff: ClassVar[Cutoff]
    allow_private: ClassVar[bool]

    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn() if self.allow_private else self._judged()
        self.cutoff.watch(connected)
        return connected

    def _judged(self) -> socket.socket:
        # What is judged is what is dialled: a name that resolves to something else a moment later gains nothing.
        name = self._dns_host
        addresses = [info[4][0] for info in _looked_up(self, name)]
        if any(is_private(str(address)) for address in addresses):
            raise PrivateError
        try:
            self._dns_host = str(addresses[0])
            return super()._new_conn()
        finally:
            self._dns_host = name


def _looked_up(connection: HTTPConnection, name: str) -> list[Any]:
    try:
        return socket.getaddrinfo(name.strip("[]"), connection.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        cause = error if isinstance(error, socket.gaierror) else socket.gaierror(socket.EAI_NONAME, "no such host")
        raise urllib3.exceptions.NameResolutionError(name, connection, cause) from cause


def refuse_private_literal(host: str) -> None:
    """Refuse a host that is private by what it is called, for requests by way of a proxy, which resolves the name.

    Raises:
        PrivateError: It is.
    """
    try:
        refuse_private_number(host)
    except OSError:
        raise PrivateError from None
    if host == "localhost" or host.endswith(".localhost") or (":" in host and is_private(host)):
        raise PrivateError
