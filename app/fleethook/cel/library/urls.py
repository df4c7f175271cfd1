"""URLs (k8s.io/apiserver/pkg/cel/library/urls.go), parsed like Go's net/url."""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote_to_bytes

from fleethook.cel.functions import Function
from fleethook.cel.values.quoting import quote_text
from fleethook.cel.values.values import Foreign

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ASCII_ESCAPE: Final = re.compile(r"%[0-7][0-9A-Fa-f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
# net/url's shouldEscape allows the sub-delims of RFC 3986 and some more characters.
_BAD_HOST: Final = re.compile(r"""[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>"%\x80-\U0010ffff]""")
_BAD_USER: Final = re.compile(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]")
_PATH_KEPT: Final = "$&+,/:;=@"
_PATH_LEFT: Final = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/%]*")


class URL(Foreign):
    """A URL."""

    __slots__ = ("parts", "text")
    kind = "kubernetes.URL"

    def __init__(self, text: str, parts: "_Parts") -> None:
        self.text: Final = text
        self.parts: Final = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class _Parts(NamedTuple):
    scheme: str
    host: str
    path: str
    query: str


def _parse(text: str) -> _Parts:
    """Return the parts of an absolute URL or an absolute path.

    Raises:
        ValueError: The text is neither; the error is Go's.
    """
    # kube-apiserver validates the text with its fragment (ParseRequestURI), and then reads it without the fragment.
    _parse_part(text)
    return _parse_part(text.partition("#")[0], needs_scheme=False)


def _parse_part(text: str, *, needs_scheme: bool = True) -> _Parts:
    if not text:
        raise _build_error(text, "empty url")
    if _CONTROL.search(text):
        raise _build_error(text, "net/url: invalid control character in URL")
    match = _SCHEME.match(text)
    if match is None and text.startswith(":"):
        raise _build_error(text, "missing protocol scheme")
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme and text != "*":
            raise _build_error(text, "invalid URI for request")
        return _Parts(scheme, "", "", query)
    host = ""
    if (scheme or not (needs_scheme or rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _parse_host(authority, text), slash + path
    _check_escapes(rest, text)
    return _Parts(scheme, host, rest, query)


def _parse_host(authority: str, text: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and _BAD_USER.search(user):
        raise _build_error(text, "net/url: invalid userinfo")
    _check_escapes(user, text)
    if host.startswith("["):
        address, bracket, port = host.rpartition("]")
        if not bracket:
            raise _build_error(text, "missing ']' in host")
        host_text = address
    else:
        host_text, colon, port = host.partition(":")
        port = colon + port
    if not _PORT.fullmatch(port):
        raise _build_error(text, f"invalid port {quote_text(port)} after host")
    bad = _BAD_HOST.search(host_text)
    if bad:
        raise _build_error(text, f"invalid character {quote_text(bad[0])} in host name")
    _check_host_escapes(host_text, text)
    return _unescape(host)


def _check_escapes(part: str, text: str) -> None:
    bad = _BAD_ESCAPE.search(part)
    if bad:
        raise _build_error(text, f"invalid URL escape {quote_text(part[bad.start() : bad.start() + 3])}")


def _check_host_escapes(host: str, text: str) -> None:
    """Reject escapes of ASCII characters (RFC 3986, 3.2.2), but that of the percent sign (RFC 6874)."""
    _check_escapes(host, text)
    for escape in _ASCII_ESCAPE.findall(host):
        if escape != "%25":
            raise _build_error(text, f"invalid URL escape {quote_text(escape)}")


def _build_error(text: str, problem: str) -> ValueError:
    return ValueError(f"parse {quote_text(text)}: {problem}")


def find_parse_error(text: str) -> str:
    """Return Go's error if ``text`` is not an absolute URL or path (ParseRequestURI), otherwise ``""``."""
    try:
        _parse_part(text)
    except ValueError as error:
        return str(error)
    return ""


def _unescape(text: str) -> str:
    return unquote_to_bytes(text).decode(errors="replace")


def _build_url(text: str) -> URL:
    try:
        parts = _parse(text)
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    # Schemes are case-insensitive.
    return URL(parts.scheme + text[len(parts.scheme) :], parts)


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{port}"):
        name, port = host, ""
    return name.removeprefix("[").removesuffix("]") if name.startswith("[") and name.endswith("]") else name, port


def _escape_path(path: str) -> str:
    if _PATH_LEFT.fullmatch(path):
        return path
    return quote(unquote_to_bytes(path), safe=_PATH_KEPT)


def _parse_query(query: str) -> dict[str, list[str]]:
    # Go drops parameters with a semicolon or an invalid escape.
    pairs = (pair for pair in query.split("&") if pair and ";" not in pair and not _BAD_ESCAPE.search(pair))
    return parse_qs("&".join(pairs), keep_blank_values=True)


_U: Final = URL.kind
URL_FUNCTIONS: Final = (
    Function("url", ("string",), _build_url),
    Function("isURL", ("string",), lambda text: not find_parse_error(text)),
    Function("getScheme", (_U,), lambda url: url.parts.scheme),
    Function("getHost", (_U,), lambda url: url.parts.host),
    Function("getHostname", (_U,), lambda url: _split_port(url.parts.host)[0]),
    Function("getPort", (_U,), lambda url: _split_port(url.parts.host)[1]),
    Function("getEscapedPath", (_U,), lambda url: _escape_path(url.parts.path)),
    Function("getQuery", (_U,), lambda url: _parse_query(url.parts.query)),
)
