"""Rules of HTTP for a download: headers of requests, redirects, statuses, ranges and the first bytes of a body."""

import contextlib
import logging
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from http.client import HTTPResponse, parse_headers
from typing import Any, ClassVar, Final, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import LocationParseError, NewConnectionError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Timeout, make_headers, parse_url

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.dial import SCHEMES, dial_host, dial_through_socks, parse_socks_proxy
from fleethook.engines.crds.download.retries import (
    CONNECT_SECONDS,
    IDLE_SECONDS,
    RETRIED,
    AttemptError,
    Deadline,
    MalformedError,
    make_proxy_credentials_error,
    parse_retry_after,
)
from fleethook.engines.crds.tarball_source import Source, redact
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


REDIRECTS: Final = 5
_REDIRECTING: Final = frozenset({301, 302, 303, 307, 308})
_GZIP: Final = b"\x1f\x8b"
# Offset and value of a tar header's magic (POSIX.1 ustar, also in GNU tar).
_USTAR: Final = (257, b"ustar")
SNIFFED_BYTES: Final = 512
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_HTML: Final = re.compile(rb"<\s*(?:!doctype\s+html|html|head|body|script|\?xml)", re.IGNORECASE)


class Address(NamedTuple):
    """A URL for a request, without userinfo and fragment, and the userinfo."""

    url: str
    origin: tuple[str, str, int]
    userinfo: str


def parse_address(url: str) -> Address | None:
    """Return the address of a URL, percent-encoded; None if it is not an http or https URL with a host."""
    try:
        parsed = parse_url(url.strip())
    except LocationParseError:
        return None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        return None
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    plain = parsed._replace(auth=None, fragment=None, path=parsed.path or "/")
    return Address(plain.url, (parsed.scheme, parsed.host.lower(), port), parsed.auth or "")


def find_redirect(status: int, headers: Mapping[str, str], url: str) -> str | None:
    """Return the target of a redirect; None if the response is not a redirect.

    Raises:
        AttemptError: The target is not an http or https URL, or the redirect leads from https to http.
    """
    location = headers.get("Location", "")
    if status not in _REDIRECTING or not location:
        return None
    # http.client reads headers as Latin-1, servers write UTF-8.
    target = _join(url, location.encode("latin-1", "replace").decode("utf-8", "replace").strip())
    address = parse_address(target)
    if address is None:
        raise AttemptError(Exit.HTTP, f"redirected to a URL that is not http or https: {redact(target)[:300]}")
    if urlsplit(url).scheme == "https" and address.origin[0] == "http":
        raise AttemptError(Exit.HTTP, f"redirected from https to http, which is refused: {redact(address.url)[:300]}")
    return address.url


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location


def make_status_error(status: int, headers: Mapping[str, str], now: datetime) -> AttemptError:
    """Return the error for a status without a usable body."""
    if status == 407:
        return make_proxy_credentials_error()
    again = status in RETRIED
    hint = _HINTS.get(status, "")
    return AttemptError(
        Exit.HTTP,
        f"HTTP {status}{hint}",
        transient=again or status >= 500,
        again=again,
        after=parse_retry_after(headers, now) if again else None,
    )


_HINTS: Final = {
    204: ": no body; expected 200",
    206: ": a part that was not requested; expected 200",
    304: ": not modified, in response to an unconditional request",
    401: ": it requires credentials",
    403: ": not allowed; check the credentials",
    404: ": not found; does this release have a crds.tar.gz?",
}


def continues_partial(headers: Mapping[str, str], *, size: int, etag: str, total: int | None) -> bool:
    """Return whether a response 206 continues the partial file: from the next byte to the end of the same body."""
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if found is None or headers.get("ETag", etag) != etag:
        return False
    first, last, complete = found.groups()
    whole = int(last) + 1
    return int(first) == size and complete in ("*", str(whole)) and total in (None, whole)


def read_strong_etag(headers: Mapping[str, str]) -> str:
    """Return the strong ETag, which identifies the exact bytes (RFC 9110, 8.8.3); ``""`` if there is none."""
    etag = headers.get("ETag", "").strip()
    return etag if len(etag) > 2 and etag.startswith('"') and etag.endswith('"') else ""


def check_beginning(beginning: bytes, headers: Mapping[str, str]) -> None:
    """Check that a body is gzip, regardless of its Content-Encoding.

    An origin that sends ``Content-Encoding: gzip`` with a ``.tar.gz`` means the gzip of the file itself. The request
    allows no encoding, so other encodings are not decoded.

    Raises:
        AttemptError: The body has another format; the message names a likely one.
    """
    if beginning.startswith(_GZIP):
        return
    offset, magic = _USTAR
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        what = "it has a Content-Encoding, although the request allows only identity"
    elif not beginning:
        what = "it is empty"
    elif _HTML.match(beginning.removeprefix(b"\xef\xbb\xbf").lstrip()):
        what = "it looks like an HTML page, perhaps a login or an error page"
    elif beginning[offset : offset + len(magic)] == magic:
        what = "it looks like a plain tar, perhaps decompressed by a proxy"
    else:
        what = f"it begins with {beginning[:4].hex(' ')}"
    raise AttemptError(Exit.ARCHIVE, f"the body is not gzip: {what}")


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


def check_credentials(source: Source) -> None:
    """Check that the credentials are valid headers.

    Raises:
        CRDsError: A header has an invalid name or value; the message does not have the value.
    """
    for name, value in source.credentials.headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            shown = name if _TOKEN.fullmatch(name) else "with an invalid name"
            raise CRDsError(Exit.USAGE, f"the header {shown} of the source's credentials cannot be sent")


def build_credential_headers(source: Source, address: Address, *, own: bool) -> dict[str, str]:
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


def build_condition_headers(validators: Validators, *, size: int, etag: str) -> dict[str, str]:
    """Return the headers of a range request for the rest of a body, or of a conditional request for a new body.

    Args:
        validators: Validators of the known body; empty without one.
        size: Size of the received part.
        etag: Strong ETag of the received part; ``""`` if the origin cannot resume it.
    """
    if size and etag:
        return {"Range": f"bytes={size}-", "If-Range": etag}
    conditions = {"If-None-Match": validators.etag, "If-Modified-Since": validators.last_modified}
    return {name: value for name, value in conditions.items() if value}


def _is_sendable(value: str) -> bool:
    return len(value) <= _MAX_VALIDATOR and _VALUE.fullmatch(value) is not None
