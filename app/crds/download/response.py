"""Rules for an origin's response: redirects, statuses, ranges and the first bytes of a body."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from app.crds.download.errors import make_proxy_credentials_error
from app.crds.download.redaction import redact
from app.crds.download.retry import RETRIED, AttemptError, parse_retry_after
from app.crds.failures import Exit

REDIRECTS: Final = 5
_REDIRECTING: Final = frozenset({301, 302, 303, 307, 308})
_GZIP: Final = b"\x1f\x8b"
# A tar header's magic, and how far into it that stands (POSIX.1 ustar, which GNU tar shares).
_USTAR: Final = (257, b"ustar")
SNIFFED_BYTES: Final = 512
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_HTML: Final = re.compile(rb"<\s*(?:!doctype\s+html|html|head|body|script|\?xml)", re.IGNORECASE)


class Address(NamedTuple):
    """A URL to send a request to, without its userinfo and fragment, and that userinfo."""

    url: str
    origin: tuple[str, str, int]
    userinfo: str


def parse_address(url: str) -> Address | None:
    """Return an address, encoded as it must be; None if it is not one of http or https with a host."""
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
    """Return where a response sends us; None if it does not.

    Raises:
        AttemptError: To nowhere that can be asked, or from https to http, where anybody on the way could answer.
    """
    location = headers.get("Location", "")
    if status not in _REDIRECTING or not location:
        return None
    # http.client reads headers as Latin-1, servers write UTF-8.
    target = _join(url, location.encode("latin-1", "replace").decode("utf-8", "replace").strip())
    address = parse_address(target)
    if address is None:
        raise AttemptError(Exit.HTTP, f"redirected to what cannot be asked: {redact(target)[:300]}")
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
    206: ": a part that was not asked for; expected 200",
    304: ": not modified, though nothing was known before",
    401: ": it asks for credentials",
    403: ": not allowed; are the credentials right?",
    404: ": not found; does this release have a crds.tar.gz?",
}


def continues_partial(headers: Mapping[str, str], *, size: int, etag: str, total: int | None) -> bool:
    """Return whether a 206 continues the partial file: from the next byte to the end, of the same body."""
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if found is None or headers.get("ETag", etag) != etag:
        return False
    first, last, complete = found.groups()
    whole = int(last) + 1
    return int(first) == size and complete in ("*", str(whole)) and total in (None, whole)


def read_strong_etag(headers: Mapping[str, str]) -> str:
    """Return an ETag that promises the same bytes (RFC 9110 8.8.3); ``""`` if there is none."""
    etag = headers.get("ETag", "").strip()
    return etag if len(etag) > 2 and etag.startswith('"') and etag.endswith('"') else ""


def check_beginning(beginning: bytes, headers: Mapping[str, str]) -> None:
    """Check that a body is gzip, whatever its Content-Encoding says of it.

    An origin that has ``Content-Encoding: gzip`` on a ``.tar.gz`` means the gzip of the file itself. A coding around
    another format would have to be undone, though the request allows none.

    Raises:
        AttemptError: It is another format; the text names a likely one.
    """
    if beginning.startswith(_GZIP):
        return
    offset, magic = _USTAR
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        what = "it has a Content-Encoding, though identity was asked for"
    elif not beginning:
        what = "it is empty"
    elif _HTML.match(beginning.removeprefix(b"\xef\xbb\xbf").lstrip()):
        what = "it looks like an HTML page, perhaps a login or an error page"
    elif beginning[offset : offset + len(magic)] == magic:
        what = "it looks like a plain tar, unpacked by somebody on the way"
    else:
        what = f"it begins with {beginning[:4].hex(' ')}"
    raise AttemptError(Exit.ARCHIVE, f"the body is no gzip: {what}")
