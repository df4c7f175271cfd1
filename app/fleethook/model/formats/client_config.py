"""Validate ``clientConfig`` of a webhook, with the messages of kube-apiserver."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote

from fleethook.model.formats.field_errors import (
    Problem,
    invalid,
    is_integer,
    mistyped,
    quoted,
    required,
    subdomain_problems,
    text_problem,
)
from fleethook.model.formats.go_url import check_characters, check_escapes, check_host, check_user
from fleethook.model.json import JSON


def client_config_problems(config: JSON, field: str) -> Iterator[Problem]:
    """Yield the problems of a ``clientConfig`` (k8s.io/apiserver/pkg/util/webhook/validation.go)."""
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


MAX_URL: Final = 8192
"""Maximum characters of a URL: common servers refuse longer request lines (nginx: large_client_header_buffers, Apache:
LimitRequestLine). kube-apiserver limits only the size of the object."""
_URL_FORM: Final = "; desired format: https://host[/path]"
# RFC 3986, appendix B. urllib.parse drops tabs and line ends, and accepts any character in a host.
_URL: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][-A-Za-z0-9+.]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)


def url_problems(url: JSON, field: str) -> Iterator[Problem]:
    """Yield the problems of a webhook's URL; Go's net/url decides whether it is a URL."""
    if (problem := text_problem(url, field, limit=MAX_URL)) is not None:
        yield problem
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
        raise ValueError(f"parse {quoted(before)}: {error}") from None
    try:
        check_escapes(fragment)
    except ValueError as error:
        raise ValueError(f"parse {quoted(url)}: {error}") from None


def _check_before_fragment(before: str, *, scheme: str, user: str, host: str) -> None:
    path = before.partition("?")[0]
    check_characters(before)
    if path.startswith(":"):
        raise ValueError("missing protocol scheme")
    if not scheme and ":" in path.partition("/")[0]:
        raise ValueError("first path segment in URL cannot contain colon")
    check_host(host)
    check_user(user)
    # Go does not parse the rest of a URL without a slash after the scheme.
    opaque = scheme and not path.startswith("/", len(scheme) + 1)
    if not opaque:
        check_escapes(path)


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
    if (problem := text_problem(path, field, limit=MAX_URL)) is not None:
        yield problem
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
