"""Parse URLs as Go's net/url does, as far as Kubernetes validates addresses with it."""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from fleethook.model.formats.field_errors import quoted

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


def parse_request_uri(text: str, *, keeps_slashes: bool = True) -> RequestURI:
    """Return the parts of an absolute URL or an absolute path (net/url.ParseRequestURI).

    A request line has no fragment, so ``#`` has no special meaning.

    Args:
        text: The URL or the path.
        keeps_slashes: Whether a path may start with two slashes. For net/url.Parse, a host follows these.

    Raises:
        ValueError: The text is neither.
    """
    check_characters(text)
    if not text:
        raise ValueError("empty url")
    if text == "*":
        return RequestURI("", None, "")
    found = _SCHEME.match(text)
    if found and not found[1]:
        raise ValueError("missing protocol scheme")
    scheme = found[1].lower() if found else ""
    rest, _, query = text[found.end() if found else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        # Go does not parse the rest of a URL without a slash after the scheme.
        return RequestURI(scheme, None, "", query=query)
    authority, path = "", rest
    if rest.startswith("//") and (scheme or not (keeps_slashes or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    user, at, host = authority.rpartition("@")
    check_host(host)
    check_user(user)
    check_escapes(path)
    return RequestURI(scheme, user if at else None, host, path, query)


def check_characters(text: str) -> None:
    """Raise ValueError if a text contains a control character."""
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")


def check_user(user: str) -> None:
    """Raise ValueError if user information contains an invalid character."""
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    check_escapes(user)


def check_escapes(text: str) -> None:
    """Raise ValueError if a percent sign is not followed by two hexadecimal digits."""
    if broken := _BROKEN_ESCAPE.search(text):
        raise ValueError(f"invalid URL escape {quoted(broken[0])}")


def check_host(host: str) -> None:
    """Raise ValueError if a host with an optional port is invalid."""
    name, bracket, rest = host.rpartition("]") if host.startswith("[") else host.partition(":")
    port = rest if bracket == "]" else bracket + rest
    if host.rfind("[") > 0:
        raise ValueError("invalid IP-literal")
    if host.startswith("[") and not bracket:
        raise ValueError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quoted(port)} after host")
    check_escapes(host)
    if broken := _BROKEN_HOST_ESCAPE.search(host):
        raise ValueError(f"invalid URL escape {quoted(broken[0])}")
    if unknown := _NOT_IN_HOST.search(host):
        raise ValueError(f"invalid character {quoted(unknown[0])} in host name")
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(unquote(name[1:]))
        except ValueError:
            raise ValueError("invalid host: not an IPv6 address") from None
