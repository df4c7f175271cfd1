"""The endpoint of a webhook: validate URLs and ``clientConfig`` as kube-apiserver does, and parse fixed addresses."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from fleethook.model.formats.field_errors import (
    FieldError,
    invalid,
    is_integer,
    quoted,
    required,
    subdomain_problems,
    too_long,
)
from fleethook.model.json import JSON, JSONObject, as_object, as_text

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(:[0-9]*)?")
_USER: Final = re.compile(r"[-A-Za-z0-9._:~!$&'()*+,;=%@]*")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
# A host may contain only the percent sign and non-ASCII bytes as escapes.
_BROKEN_HOST_ESCAPE: Final = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_NOT_IN_HOST: Final = re.compile(r"[^-A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")
_SCHEME: Final = re.compile(r"([A-Za-z][-A-Za-z0-9+.]*)?:")


class RequestURI(NamedTuple):
    """The parts of a URL in a request line."""

    scheme: str
    """The scheme in lower case; ``""`` for a path without scheme."""
    user: str | None
    """The user information before ``@``, None without it."""
    host: str
    """The host with its port."""
    path: str = ""
    query: str = ""

    @property
    def hostname(self) -> str:
        """The host without its port; an IPv6 address without its brackets."""
        name = self.host[: -len(self.port) - 1] if _has_port(self.host) else self.host
        return name.removeprefix("[").removesuffix("]")

    @property
    def port(self) -> str:
        """The port as text, ``""`` for none."""
        return self.host.rpartition(":")[2] if _has_port(self.host) else ""


def _has_port(host: str) -> bool:
    return host.rfind(":") > host.rfind("]")


def parse_url(text: str, *, is_request: bool = True) -> RequestURI:
    """Return the parts of a URL as Go does (net/url, parse).

    Args:
        text: The URL, in which ``#`` has no special meaning.
        is_request: Whether only an absolute URL or path is allowed, which may start with two slashes, as for
            ParseRequestURI. For Parse, which takes the fragment off before, a host follows two slashes.

    Raises:
        ValueError: The text is no URL.
    """
    _check_characters(text)
    if not text and is_request:
        raise ValueError("empty url")
    if text == "*":
        return RequestURI("", None, "")
    found = _SCHEME.match(text)
    if found and not found[1]:
        raise ValueError("missing protocol scheme")
    scheme = found[1].lower() if found else ""
    rest, _, query = text[found.end() if found else 0 :].partition("?")
    if not rest.startswith("/"):
        if scheme:
            # Go does not parse the rest of a URL without a slash after the scheme.
            return RequestURI(scheme, None, "", query=query)
        if is_request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    authority, path = "", rest
    if rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    user, at, host = authority.rpartition("@")
    _check_host(host)
    _check_user(user)
    _check_escapes(path)
    return RequestURI(scheme, user if at else None, host, path, query)


def _check_characters(text: str) -> None:
    """Raise ValueError if a text contains a control character."""
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")


def _check_user(user: str) -> None:
    """Raise ValueError if user information contains an invalid character."""
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    _check_escapes(user)


def _check_escapes(text: str) -> None:
    """Raise ValueError if a percent sign is not followed by two hexadecimal digits."""
    if broken := _BROKEN_ESCAPE.search(text):
        raise ValueError(f"invalid URL escape {quoted(broken[0])}")


def _check_host(host: str) -> None:
    """Raise ValueError if a host with an optional port is invalid."""
    name, bracket, rest = host.rpartition("]") if host.startswith("[") else host.partition(":")
    port = rest if bracket == "]" else bracket + rest
    if host.rfind("[") > 0:
        raise ValueError("invalid IP-literal")
    if host.startswith("[") and not bracket:
        raise ValueError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quoted(port)} after host")
    _check_escapes(host)
    if broken := _BROKEN_HOST_ESCAPE.search(host):
        raise ValueError(f"invalid URL escape {quoted(broken[0])}")
    if unknown := _NOT_IN_HOST.search(host):
        raise ValueError(f"invalid character {quoted(unknown[0])} in host name")
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(unquote(name[1:]))
        except ValueError:
            raise ValueError("invalid host: not an IPv6 address") from None


class WebhookEndpoint(NamedTuple):
    """The URL of a webhook, and the certificate that it must present."""

    url: str
    server_name: str = ""
    """The name that the certificate must contain, ``""`` for the host of the URL."""
    ca_bundle: str = ""
    """Certificate authorities, PEM in base64; ``""`` for those of the system."""
    service: bool = False
    """Whether the endpoint is a Service of the cluster, whose address is always private."""


def client_config_problems(config: JSON, field: str) -> Iterator[FieldError]:
    """Yield the problems of a ``clientConfig`` (k8s.io/apiserver/pkg/util/webhook/validation.go)."""
    url, service = as_object(config).get("url"), as_object(config).get("service")
    if (url is None) == (service is None):
        yield required(field, "exactly one of url or service is required")
    elif isinstance(url, str):
        yield from url_problems(url, f"{field}.url")
    elif isinstance(service, dict):
        yield from _service_problems(service, f"{field}.service")


MAX_URL: Final = 8192
"""Maximum characters of a URL: common servers refuse longer request lines (nginx: large_client_header_buffers, Apache:
LimitRequestLine). kube-apiserver limits only the size of the object."""
_URL_FORM: Final = "; desired format: https://host[/path]"


def url_problems(url: str, field: str) -> Iterator[FieldError]:
    """Yield the problems of a webhook's URL; Go's net/url decides whether it is a URL."""
    if len(url) > MAX_URL:
        yield too_long(field, MAX_URL)
        return
    before, _, fragment = url.partition("#")
    shown = before
    try:
        parts = parse_url(before, is_request=False)
        shown = url
        _check_escapes(fragment)
    except ValueError as error:
        yield required(field, f"url must be a valid URL: parse {quoted(shown)}: {error}{_URL_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not parts.host:
        yield invalid(field, parts.host, f"host must be specified{_URL_FORM}")
    if parts.user is not None:
        user = quote(unquote(parts.user), safe="$&+,;=:")
        yield invalid(field, user, "user information is not permitted in the URL")
    if fragment:
        yield invalid(field, unquote(fragment), "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(field, parts.query, "query parameters are not permitted in the URL")


def _service_problems(service: JSONObject, field: str) -> Iterator[FieldError]:
    for member in ("name", "namespace"):
        if not as_text(service.get(member)):
            yield required(f"{field}.{member}")
    port = service.get("port")
    if is_integer(port) and not 1 <= port <= 65535:
        yield invalid(f"{field}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    yield from _path_problems(as_text(service.get("path")), f"{field}.path")


def _path_problems(path: str, field: str) -> Iterator[FieldError]:
    if path in ("", "/"):
        return
    if len(path) > MAX_URL:
        yield too_long(field, MAX_URL)
        return
    if path == "//":
        yield invalid(field, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(field, path, "must start with a '/'")
    # Upstream drops the first character even if it is no slash: "foo/" has the segment "oo".
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(field, path, f"segment[{index}] may not be empty")
        else:
            yield from (invalid(field, path, f"segment[{index}]: {text}") for text in subdomain_problems(segment))


FixedAddresses = Mapping[tuple[str, int], tuple[str, int]]
"""Addresses and ports to connect to, by host and port."""
NO_FIXED_ADDRESSES: Final[FixedAddresses] = MappingProxyType({})
FORM: Final = "HOST:PORT:ADDRESS or HOST:PORT:ADDRESS:PORT"

_ENTRY: Final = re.compile(
    r"(?P<host>[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5}):(?P<address>[0-9.]+|\[[0-9A-Fa-f:.]+\])(?::(?P<target>[0-9]{1,5}))?",
    re.ASCII,
)
_MAX_PORT: Final = 65535


def parse_fixed_addresses(entries: Iterable[str]) -> FixedAddresses:
    """Return the addresses of entries such as ``hook.default.svc:443:127.0.0.1:8443``; the first one for a host counts.

    Raises:
        ValueError: An entry is malformed; the text has the entry and the reason.
    """
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry!r}: expected {FORM}")
        port, target = int(match["port"]), int(match["target"] or match["port"])
        if not (0 < port <= _MAX_PORT and 0 < target <= _MAX_PORT):
            raise ValueError(f"{entry!r}: expected ports from 1 to {_MAX_PORT}")
        try:
            address = str(ipaddress.ip_address(match["address"].strip("[]")))
        except ValueError:
            raise ValueError(f"{entry!r}: {match['address']} is not an IP address") from None
        found.setdefault((match["host"].lower(), port), (address, target))
    return found
