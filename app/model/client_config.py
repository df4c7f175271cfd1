"""What the hooks of every kind of hook configuration share, and the words for what is wrong with it.

The words are those of an apiserver's field errors (k8s.io/apimachinery/pkg/util/validation/field, v0.36), so that
somebody who looks for a text finds what the world knows about it. Values of a wrong type, which an apiserver would not
even decode, are findings too: a manifest has been through no apiserver.
"""

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeGuard
from urllib.parse import quote, unquote

from cryptography import x509

from app.model.json import JSON

EVERY: Final = "*"
SCOPES: Final = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES: Final = ("Fail", "Ignore")

_LONGEST_TIMEOUT: Final = 30
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_LABEL: Final = 63
_SUBDOMAIN_FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FORM)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_FORM}')"
)
_DNS_1035_FORM: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS_1035: Final = re.compile(_DNS_1035_FORM)
_DNS_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_DNS_1035_FORM}')"
)
_SEGMENTS: Final = {2: "two", 3: "three"}


class Problem(NamedTuple):
    """One finding, in the words of an apiserver's field errors."""

    field: str
    text: str


def required(field: str, detail: str = "") -> Problem:
    """Say that something is missing."""
    return Problem(field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: str | float | Sequence[str], detail: str) -> Problem:
    """Say what is wrong with a value, which is shown as JSON."""
    return Problem(field, f"Invalid value: {_quoted(value)}: {detail}")


def mistyped(field: str, expected: str) -> Problem:
    """Say that a value has a wrong type; the value is not shown, it may be anything."""
    return Problem(field, f"Invalid value: must be {expected}")


def unsupported(field: str, value: str, supported: Sequence[str]) -> Problem:
    """Say that a value is none of those that there are."""
    known = ", ".join(_quoted(one) for one in supported)
    return Problem(field, f"Unsupported value: {_quoted(value)}: supported values: {known}")


def duplicate(field: str, value: str) -> Problem:
    """Say that a value is there twice."""
    return Problem(field, f"Duplicate value: {_quoted(value)}")


def _quoted(value: str | float | Sequence[str]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_integer(value: JSON) -> TypeGuard[int]:
    """Return whether a value is a JSON number without a fraction: Python takes a boolean for one."""
    return isinstance(value, int) and not isinstance(value, bool)


def subdomain_problems(text: str, *, unit: str = "characters") -> Iterator[str]:
    """Yield why a text is no DNS subdomain as RFC 1123 has it; upstream counts it in this unit here, in that there."""
    if len(text) > _LONGEST_SUBDOMAIN:
        yield f"must be no more than {_LONGEST_SUBDOMAIN} {unit}"
    if not _SUBDOMAIN.fullmatch(text):
        yield _SUBDOMAIN_TEXT


def name_problems(name: JSON, field: str, *, segments: int) -> Iterator[Problem]:
    """Yield what is wrong with a hook's name, a domain of so many segments or more."""
    if name is None or name == "":
        yield required(field)
    elif not isinstance(name, str):
        yield mistyped(field, "a string")
    elif texts := list(subdomain_problems(name)):
        yield invalid(field, name, ",".join(texts))
    elif name.count(".") < segments - 1:
        yield invalid(field, name, f"should be a domain with at least {_SEGMENTS[segments]} segments separated by dots")


def choice_problems(value: JSON, field: str, supported: Sequence[str]) -> Iterator[Problem]:
    """Yield that an optional value is none of those that there are."""
    if value is None:
        return
    if not isinstance(value, str):
        yield mistyped(field, "a string")
    elif value not in supported:
        yield unsupported(field, value, supported)


def list_problems(names: JSON, field: str, what: str, *, empty_items: bool) -> Iterator[Problem]:
    """Yield what is wrong with a list of a rule: it has to name something, and ``*`` stands alone in it."""
    if names is None or names == []:
        yield required(field)
        return
    if not isinstance(names, list):
        yield mistyped(field, "a list")
        return
    if EVERY in names and len(names) > 1:
        yield invalid(field, texts_of(names), f"if '*' is present, must not specify other {what}")
    for index, name in enumerate(names):
        if not isinstance(name, str):
            yield mistyped(f"{field}[{index}]", "a string")
        elif not name and not empty_items:
            yield required(f"{field}[{index}]")


def texts_of(values: JSON) -> list[str]:
    """Return the texts of a list, none of anything else."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def timeout_problems(timeout: JSON, field: str) -> Iterator[Problem]:
    """Yield what is wrong with an optional number of seconds."""
    if timeout is None:
        return
    if not is_integer(timeout):
        yield mistyped(field, "an integer")
    elif not 1 <= timeout <= _LONGEST_TIMEOUT:
        yield invalid(field, timeout, "the timeout value must be between 1 and 30 seconds")


def version_problems(versions: JSON, field: str, known: Sequence[str], *, recognised: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with the versions of a review that a hook takes.

    Args:
        versions: What is given.
        field: Where.
        known: The versions that are spoken here.
        recognised: Whether one of them has to be among those given.
    """
    if versions is None or versions == []:
        yield required(field, f"must specify one of {', '.join(known)}")
        return
    if not isinstance(versions, list):
        yield mistyped(field, "a list")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        place = f"{field}[{index}]"
        if not isinstance(version, str):
            yield mistyped(place, "a string")
        elif version in seen:
            yield invalid(place, version, "duplicate version")
        else:
            seen.add(version)
            yield from (invalid(place, version, text) for text in _dns_1035_problems(version))
    if recognised and seen.isdisjoint(known):
        yield invalid(field, texts_of(versions), f"must include at least one of {', '.join(known)}")


def _dns_1035_problems(text: str) -> Iterator[str]:
    if len(text) > _LONGEST_LABEL:
        yield f"must be no more than {_LONGEST_LABEL} characters"
    if not _DNS_1035.fullmatch(text):
        yield _DNS_1035_TEXT


def client_config_problems(config: JSON, field: str) -> Iterator[Problem]:
    """Yield what is wrong with where a hook is called (upstream: k8s.io/apiserver/pkg/util/webhook/validation.go)."""
    if config is not None and not isinstance(config, dict):
        yield mistyped(field, "an object")
        return
    url, service = (config or {}).get("url"), (config or {}).get("service")
    if (url is None) == (service is None):
        yield required(field, "exactly one of url or service is required")
    elif url is not None:
        yield from url_problems(url, f"{field}.url")
    else:
        yield from _service_problems(service, f"{field}.service")


_URL_FORM: Final = "; desired format: https://host[/path]"
# RFC 3986, appendix B. Python's own reading drops tabs and line ends, and takes any character in a host.
_URL: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][-A-Za-z0-9+.]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(:[0-9]*)?")
_USER: Final = re.compile(r"[-A-Za-z0-9._:~!$&'()*+,;=%@]*")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
# In a host only the percent sign and what is beyond ASCII may be escaped.
_BROKEN_HOST_ESCAPE: Final = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_NOT_IN_HOST: Final = re.compile(r"[^-A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")


def url_problems(url: JSON, field: str) -> Iterator[Problem]:
    """Yield what is wrong with a hook's URL; what is a URL at all is what Go's net/url says."""
    if not isinstance(url, str):
        yield mistyped(field, "a string")
        return
    parts = _URL.fullmatch(url)
    scheme, authority, _, query, fragment = (part or "" for part in parts.groups()) if parts else ("",) * 5
    user, at, host = authority.rpartition("@")
    try:
        _check_url(url, scheme=scheme, user=user, host=host)
    except ValueError as error:
        yield required(field, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if scheme.lower() != "https":
        yield invalid(field, scheme.lower(), f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not host:
        yield invalid(field, host, f"host must be specified{_URL_FORM}")
    if at:
        yield invalid(field, quote(unquote(user), safe="$&+,;=:"), "user information is not permitted in the URL")
    if fragment:
        yield invalid(field, unquote(fragment), "fragments are not permitted in the URL")
    if query:
        yield invalid(field, query, "query parameters are not permitted in the URL")


def _check_url(url: str, *, scheme: str, user: str, host: str) -> None:
    before, _, fragment = url.partition("#")
    try:
        _check_before_fragment(before, scheme=scheme, user=user, host=host)
    except ValueError as error:
        raise ValueError(f"parse {_quoted(before)}: {error}") from None
    if broken := _BROKEN_ESCAPE.search(fragment):
        raise ValueError(f"parse {_quoted(url)}: invalid URL escape {_quoted(broken[0])}")


def _check_before_fragment(before: str, *, scheme: str, user: str, host: str) -> None:
    path = before.partition("?")[0]
    if _CONTROL.search(before):
        raise ValueError("net/url: invalid control character in URL")
    if path.startswith(":"):
        raise ValueError("missing protocol scheme")
    if not scheme and ":" in path.partition("/")[0]:
        raise ValueError("first path segment in URL cannot contain colon")
    _check_host(host)
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    # What follows a scheme without a slash is not looked into.
    opaque = scheme and not path.startswith("/", len(scheme) + 1)
    if not opaque and (broken := _BROKEN_ESCAPE.search(path)):
        raise ValueError(f"invalid URL escape {_quoted(broken[0])}")


def _check_host(host: str) -> None:
    name, bracket, rest = host.rpartition("]") if host.startswith("[") else host.partition(":")
    port = rest if bracket == "]" else bracket + rest
    if host.rfind("[") > 0:
        raise ValueError("invalid IP-literal")
    if host.startswith("[") and not bracket:
        raise ValueError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {_quoted(port)} after host")
    if broken := _BROKEN_ESCAPE.search(host) or _BROKEN_HOST_ESCAPE.search(host):
        raise ValueError(f"invalid URL escape {_quoted(broken[0])}")
    if unknown := _NOT_IN_HOST.search(host):
        raise ValueError(f"invalid character {_quoted(unknown[0])} in host name")
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(unquote(name[1:]))
        except ValueError:
            raise ValueError("invalid host: it is no IPv6 address") from None


def _service_problems(service: JSON, field: str) -> Iterator[Problem]:
    if not isinstance(service, dict):
        yield mistyped(field, "an object")
        return
    for member in ("name", "namespace"):
        value = service.get(member)
        if value is None or value == "":
            yield required(f"{field}.{member}")
        elif not isinstance(value, str):
            yield mistyped(f"{field}.{member}", "a string")
    port = service.get("port")
    if port is not None and not is_integer(port):
        yield mistyped(f"{field}.port", "an integer")
    elif port is not None and not 1 <= port <= 65535:
        yield invalid(f"{field}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    yield from _path_problems(service.get("path"), f"{field}.path")


def _path_problems(path: JSON, field: str) -> Iterator[Problem]:
    if path is None or path in ("", "/"):
        return
    if not isinstance(path, str):
        yield mistyped(field, "a string")
        return
    if path == "//":
        yield invalid(field, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(field, path, "must start with a '/'")
    # The first character goes whatever it is, as upstream has it: "foo/" has the one segment "oo".
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(field, path, f"segment[{index}] may not be empty")
        else:
            yield from (invalid(field, path, f"segment[{index}]: {text}") for text in subdomain_problems(segment))


def bundle_problems(bundle: JSON, field: str) -> Iterator[Problem]:
    """Yield what is wrong with a CA bundle, which upstream finds out at the first call."""
    if bundle in (None, ""):
        return
    try:
        x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, TypeError, binascii.Error):
        yield Problem(field, "Invalid value: unable to load root certificates: it is not PEM in base64")
