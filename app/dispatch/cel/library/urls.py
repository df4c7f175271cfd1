"""URLs (k8s.io/apiserver/pkg/cel/library/urls.go), parsed like Go's net/url."""

import re
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote_to_bytes

from google.protobuf.message import Message

from app.dispatch.cel.functions import Function
from app.dispatch.cel.library.quoting import quote_text
from app.dispatch.cel.protobuf_types import get_message_type

_URL: Final = get_message_type("URL")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
# net/url's shouldEscape allows the sub-delims of RFC 3986 and some more characters.
_BAD_HOST: Final = re.compile(r"""[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>"%\x80-\U0010ffff]""")
_BAD_USER: Final = re.compile(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]")
_PATH_KEPT: Final = "$&+,/:;=@"
_PATH_LEFT: Final = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/%]*")


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
    return _parse_part(text.partition("#")[0])


def _parse_part(text: str) -> _Parts:
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
    if scheme and rest.startswith("//"):
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
    _check_escapes(host_text, text)
    return _unescape(host)


def _check_escapes(part: str, text: str) -> None:
    bad = _BAD_ESCAPE.search(part)
    if bad:
        raise _build_error(text, f"invalid URL escape {quote_text(part[bad.start() : bad.start() + 3])}")


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


def _read_parts(message: Any) -> _Parts:
    return _parse(message.text)


def _build_url(text: str) -> Message:
    try:
        parts = _parse(text)
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    # Schemes are case-insensitive.
    return _URL(text=parts.scheme + text[len(parts.scheme) :])


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


_U: Final = "kubernetes.URL"
FUNCTIONS: Final = (
    Function("url", ("string",), _U, _build_url, member=False),
    Function("isURL", ("string",), "bool", lambda text: not find_parse_error(text), member=False),
    Function("getScheme", (_U,), "string", lambda url: _read_parts(url).scheme),
    Function("getHost", (_U,), "string", lambda url: _read_parts(url).host),
    Function("getHostname", (_U,), "string", lambda url: _split_port(_read_parts(url).host)[0]),
    Function("getPort", (_U,), "string", lambda url: _split_port(_read_parts(url).host)[1]),
    Function("getEscapedPath", (_U,), "string", lambda url: _escape_path(_read_parts(url).path)),
    Function("getQuery", (_U,), "map<string,list<string>>", lambda url: _parse_query(_read_parts(url).query)),
)
