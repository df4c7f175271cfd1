"""Sends requests for tarballs by urllib3: addresses, proxies, TLS, credentials and redirects.

A download has a time limit of its own. A socket's timeout is for one read, so an origin that sends one byte of a header
or of a handshake every few seconds never reaches it. Shutting the connection down from another thread ends each wait.
"""

import base64
import contextlib
import logging
import os
import re
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, LocationParseError, NameResolutionError, NewConnectionError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Timeout, make_headers, parse_url

from fleethook.engines.crds.download.download_errors_and_retries import AttemptError
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.outbound.certificate_trust import TrustError, create_context
from fleethook.outbound.private_addresses_and_proxies import PrivateAddressError, is_private, refuse_private_number

# It logs each request with its query, which may have the signature of a signed URL.
_LOGGER: Final = logging.getLogger("urllib3.connectionpool")
CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30.0
"""Limit of a read's wait for the next byte."""
_SOCKS: Final = ("socks5", "socks5h")


class DownloadDeadline:
    """The end of a download: shuts its connections down, also while a read or a handshake waits."""

    def __init__(self, seconds: float) -> None:
        """Prepare; the time starts now, and the block of the context manager ends the watch."""
        self._until: Final = time.monotonic() + seconds
        # Duplicates of sockets: wrapping a socket in TLS detaches its file descriptor.
        self._watched: Final[list[socket.socket]] = []
        self._timer: Final = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._end)
        self._timer.daemon = True

    @property
    def left(self) -> float:
        """Seconds until the end; not positive after it."""
        return self._until - time.monotonic()

    def watch(self, connected: socket.socket) -> None:
        """Shut a connection down at the end of the time, or at once after it."""
        self._watched.append(connected.dup())
        if self.left <= 0:
            self._end()

    def _end(self) -> None:
        for connected in list(self._watched):
            # The peer may have closed it before.
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        for connected in self._watched:
            connected.close()


class _Connection(HTTPConnection):
    """A connection that ends with its deadline, and, if private addresses are not allowed, has a public one."""

    deadline: ClassVar[DownloadDeadline]
    allow_private: ClassVar[bool]

    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn() if self.allow_private else self._connect_to_public()
        self.deadline.watch(connected)
        return connected

    def _connect_to_public(self) -> socket.socket:
        """Connect to an address that is checked here, so that DNS rebinding has no effect."""
        name, last = self._dns_host, None
        for address in self._resolve(name):
            self._dns_host = address
            try:
                return super()._new_conn()
            except (NewConnectionError, ConnectTimeoutError) as error:
                last = error
            finally:
                self._dns_host = name
        raise last or NewConnectionError(self, "no address")

    def _resolve(self, name: str) -> list[str]:
        try:
            found = socket.getaddrinfo(name.strip("[]"), self.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(name, self, error) from error
        except UnicodeError:
            raise LocationParseError(name) from None
        addresses = [str(info[4][0]) for info in found]
        if private := next(filter(is_private, addresses), None):
            raise PrivateAddressError(private)
        return addresses


class DownloadRequest(NamedTuple):
    """A GET request, and the proxy and TLS settings for it."""

    url: str
    headers: Mapping[str, str]
    context: ssl.SSLContext
    proxy_url: str = ""
    proxy_context: ssl.SSLContext | None = None
    """TLS context for an https proxy."""
    allow_private: bool = True
    """Whether the peer, the host or the proxy in front of it, may have a private address."""


@contextlib.contextmanager
def send_request(request: DownloadRequest, deadline: DownloadDeadline) -> Iterator[BaseHTTPResponse]:
    """Send a GET and yield the response, its body unread and undecoded; the caller handles redirects and statuses.

    Raises:
        CRDsError: The proxy URL cannot be used.
        urllib3.exceptions.HTTPError: Any other failure. That of a private address, if these are not allowed, is a
            ProtocolError with the PrivateAddressError.
    """
    _LOGGER.setLevel(max(_LOGGER.level, logging.INFO))
    with _build_manager(request) as manager:
        members = {"deadline": deadline, "allow_private": request.allow_private}
        manager.pool_classes_by_scheme = {
            scheme: _make_pool_class(pool, members) for scheme, pool in manager.pool_classes_by_scheme.items()
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


def _build_manager(request: DownloadRequest) -> urllib3.PoolManager:
    if not request.proxy_url:
        return urllib3.PoolManager(ssl_context=request.context)
    shown = redact(request.proxy_url)
    try:
        parts = urlsplit(request.proxy_url)
    except ValueError:
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {shown}: it must have a host") from None
    if "@" in parts.path + parts.query + parts.fragment:
        # A password with an unescaped slash: the apparent host is a part of the secret.
        raise CRDsError(Exit.USAGE, "invalid proxy URL: percent-encode the user and the password before its @")
    if parts.scheme in _SOCKS:
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {shown}: fleethook uses no SOCKS proxies; give an HTTP proxy")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {shown}: it must be http or https, and have a host")
    headers: dict[str, str] = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = dict(make_headers(proxy_basic_auth=pair.encode().decode("latin-1")))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query="", fragment="").geturl()
    return urllib3.ProxyManager(
        bare, proxy_headers=headers, proxy_ssl_context=request.proxy_context, ssl_context=request.context
    )


def _make_pool_class(pool: Any, members: Mapping[str, object]) -> Any:
    connection = type("Connection", (_Connection, pool.ConnectionCls), dict(members))
    return type("Pool", (pool,), {"ConnectionCls": connection})


def refuse_private_literal(host: str) -> None:
    """Refuse a host that is private by its text alone. For requests through a proxy, which resolves the name.

    Raises:
        PrivateAddressError: The host is private.
    """
    refuse_private_number(host)
    if host == "localhost" or host.endswith(".localhost") or (":" in host and is_private(host)):
        raise PrivateAddressError(host)


def check_host(url: str, allowed: tuple[str, ...]) -> None:
    """Raise AttemptError if the host of a URL is not allowed: by its name, or by ``.suffix``; empty allows any."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    names = [name.lower() for name in allowed]
    if names and not any(host == name or (name.startswith(".") and host.endswith(name)) for name in names):
        raise AttemptError(Exit.NETWORK, "its host is not one of the allowed hosts")


_HEADERS: Final = {
    "User-Agent": "fleethook",
    "Accept": "*/*",
    # Some origins send a .tar.gz with `Content-Encoding: gzip`; decoding would remove the file's own gzip.
    "Accept-Encoding": "identity",
}
MAX_REDIRECTS: Final = 5
_REDIRECTING: Final = frozenset({301, 302, 303, 307, 308})


class RequestAddress(NamedTuple):
    """A URL for a request, without userinfo and fragment, and the userinfo."""

    url: str
    origin: tuple[str, str, int]
    userinfo: str


def parse_address(url: str) -> RequestAddress | None:
    """Return the address of a URL, percent-encoded; None if it is not an http or https URL with a host."""
    try:
        parsed = parse_url(url.strip())
    except LocationParseError:
        return None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        return None
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    plain = parsed._replace(auth=None, fragment=None, path=parsed.path or "/")
    return RequestAddress(plain.url, (parsed.scheme, parsed.host.lower(), port), parsed.auth or "")


def find_redirect(status: int, headers: Mapping[str, str], url: str) -> str | None:
    """Return the target of a redirect; None if the response is not a redirect.

    Raises:
        AttemptError: The target is not an http or https URL, or the redirect leads from https to http.
    """
    location = headers.get("Location", "")
    if status not in _REDIRECTING or not location:
        return None
    # http.client reads headers as Latin-1, servers write UTF-8.
    target = location.encode("latin-1", "replace").decode("utf-8", "replace").strip()
    with contextlib.suppress(ValueError):  # parse_address then refuses the URL
        target = urljoin(url, target)
    address = parse_address(target)
    if address is None:
        raise AttemptError(Exit.HTTP, f"redirected to a URL that is not http or https: {redact(target)[:300]}")
    if urlsplit(url).scheme == "https" and address.origin[0] == "http":
        raise AttemptError(Exit.HTTP, f"redirected from https to http, which is refused: {redact(address.url)[:300]}")
    return address.url


class Hop(NamedTuple):
    """One request of an attempt: the first one, or that of a redirect."""

    url: str
    headers: Mapping[str, str]
    trusted: bool
    """Whether the source's credentials may be sent to it."""


_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Visible Latin-1 and blanks (RFC 9110, 5.5): a line break in a value would inject another header.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_MAX_VALIDATOR: Final = 1024


class Validators(NamedTuple):
    """An origin's validators of one version of a body (RFC 9110, 8.8)."""

    etag: str = ""
    last_modified: str = ""

    def usable(self) -> "Validators":
        """Return the validators that are valid header values; the others become ``""``."""
        return Validators(*(value if _is_sendable(value) else "" for value in self))

    def headers(self) -> dict[str, str]:
        """Return the headers of a conditional request; none without validators."""
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in found.items() if value}


def _is_sendable(value: str) -> bool:
    return len(value) <= _MAX_VALIDATOR and _VALUE.fullmatch(value) is not None


_Answer = TypeVar("_Answer")


def follow_redirects(
    source: TarballSource, address: RequestAddress, validators: Validators, send: Callable[[Hop], _Answer | str]
) -> _Answer:
    """Return the answer of an address after its redirects; raises AttemptError if they are too many.

    Args:
        source: The source, whose credentials go only to its own origin.
        address: The address of the first request.
        validators: The validators for a conditional request.
        send: Sends a request, and returns its answer, or the target of a redirect as `find_redirect` does.
    """
    headers, own_origin = _HEADERS | validators.headers(), parse_address(source.url)
    own = own_origin is not None and address.origin == own_origin.origin
    hop = Hop(address.url, {**build_credential_headers(source, address, own=own), **headers}, own)
    for _ in range(MAX_REDIRECTS + 1):
        answer = send(hop)
        if not isinstance(answer, str):
            return answer
        before, after = parse_address(hop.url), parse_address(answer)
        if before is not None and after is not None and before.origin == after.origin:
            hop = hop._replace(url=answer)
        else:
            # A redirect back to the first origin does not restore the credentials.
            hop = Hop(answer, headers, trusted=False)
    raise AttemptError(Exit.HTTP, f"{redact(address.url)}: more than {MAX_REDIRECTS} redirects")


def check_credentials(source: TarballSource) -> None:
    """Check that the credentials are valid headers.

    Raises:
        CRDsError: A header has an invalid name or value; the message does not have the value.
    """
    for name, value in source.credentials.headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            shown = name if _TOKEN.fullmatch(name) else "with an invalid name"
            raise CRDsError(Exit.USAGE, f"the header {shown} of the source's credentials cannot be sent")


def build_credential_headers(source: TarballSource, address: RequestAddress, *, own: bool) -> dict[str, str]:
    """Return the headers that carry credentials.

    Args:
        source: The source with the credentials.
        address: The address of the request: the source's URL or a mirror. Its userinfo is sent to it only.
        own: Whether the address has the source's origin. A mirror of another origin gets no credentials.
    """
    credentials = source.credentials
    headers = dict(credentials.headers) if own else {}
    pair = unquote(address.userinfo)
    if own and (credentials.username or credentials.password):
        pair = f"{credentials.username}:{credentials.password}"
    if pair and not any(name.lower() == "authorization" for name in headers):
        # make_headers encodes Latin-1, but servers read UTF-8 (RFC 7617, 2.1).
        pair = pair if ":" in pair else f"{pair}:"
        headers |= {"Authorization": make_headers(basic_auth=pair.encode().decode("latin-1"))["authorization"]}
    return headers


def build_tls_context(source: TarballSource, *, identified: bool) -> ssl.SSLContext:
    """Return a TLS context that trusts the source's authorities, or the system's if the source has none.

    Args:
        source: The source with ``ca_pem`` and client certificate.
        identified: Present the client certificate. Only for the source's own origin.

    Raises:
        CRDsError: A certificate is missing or invalid, or does not match its key.
    """
    try:
        context = create_context(base64.b64encode(source.ca_pem).decode())
    except TrustError:
        raise CRDsError(Exit.USAGE, "the CA bundle has no PEM certificate") from None
    given = source.credentials
    if identified and given.client_certificate_pem:
        _load_client_certificate(context, given.client_certificate_pem + b"\n" + given.client_key_pem)
    return context


def _load_client_certificate(context: ssl.SSLContext, pair: bytes) -> None:
    try:
        with _as_file(pair) as path:
            # Without this function, OpenSSL asks on the terminal for the password of an encrypted key.
            context.load_cert_chain(path, password=lambda: b"")
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error.strerror or "unreadable"
        text = (
            f"the client certificate and its key cannot be used: {str(reason).replace('_', ' ').lower()}; both must be "
            "PEM and match, and the key must not be encrypted"
        )
        raise CRDsError(Exit.USAGE, text) from None


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a temporary file, in memory on Linux: ``ssl`` reads keys from files only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("credential")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
