"""Validates ``spec.crdTarball.httpSource``: the rules of upstream first, then those of fleethook.

Upstream: operator/pkg/controller/karmada/validating.go (v1.17.1).
"""

import re
from collections.abc import Iterator
from typing import Final

from fleethook.engines.crds.http_source import redact
from fleethook.model.formats.client_config import MAX_URL, RequestURI, parse_request_uri
from fleethook.model.formats.field_errors import Problem, invalid, is_integer, mistyped, required, too_long
from fleethook.model.json import JSON, JSONObject
from fleethook.model.operator import MAX_TARBALL_BYTES, MAX_TIMEOUT_SECONDS, SHA256_FORM
from fleethook.outbound.tls.ca_bundle import bundle_problems

_SCHEMES: Final = ("http", "https")
_PROXY_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
MAX_MIRRORS: Final = 8
MAX_NO_PROXY: Final = 64
_MAX_PORT: Final = 65535
_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


def find_http_problems(source: JSON, field: str, *, namespace: JSON, strict: bool) -> Iterator[Problem]:
    """Yield the problems of an HTTP source.

    Args:
        source: The field's value, of any type; None if it is missing.
        field: Path of the field.
        namespace: Namespace of the instance; only its Secrets may be named.
        strict: Refuse credentials in URLs.
    """
    if source is None:
        return
    if not isinstance(source, dict):
        yield mistyped(field, "an object")
        return
    if source.get("url") is not None:
        yield from _find_url_problems(source["url"], f"{field}.url", strict=strict)
    yield from _find_proxy_problems(source.get("proxy"), f"{field}.proxy", namespace=namespace, strict=strict)
    yield from _find_digest_problems(source.get("sha256"), f"{field}.sha256")
    yield from _find_mirror_problems(source.get("mirrors"), f"{field}.mirrors", strict=strict)
    yield from _find_authority_problems(source, field, namespace=namespace)
    yield from find_reference_problems(source.get("secretRef"), f"{field}.secretRef", namespace=namespace)
    yield from _find_number_problems(source.get("timeoutSeconds"), f"{field}.timeoutSeconds", limit=MAX_TIMEOUT_SECONDS)
    yield from _find_number_problems(source.get("maxBytes"), f"{field}.maxBytes", limit=MAX_TARBALL_BYTES)


def find_reference_problems(reference: JSON, field: str, *, namespace: JSON) -> Iterator[Problem]:
    """Yield the problems of an optional reference to an object in the instance's namespace.

    The controller reads the object with its own permissions. A reference to another namespace would let every user who
    can write an instance read Secrets there.
    """
    if reference is None:
        return
    if not isinstance(reference, dict):
        yield mistyped(field, "an object")
        return
    name = reference.get("name")
    if name is None or name == "":
        yield required(f"{field}.name")
    elif not isinstance(name, str):
        yield mistyped(f"{field}.name", "a string")
    if reference.get("namespace") not in (None, "", namespace):
        yield Problem(f"{field}.namespace", "Forbidden: must be the namespace of the Karmada, or empty")


def _find_url_problems(
    url: JSON, field: str, *, what: str = "remote", schemes: tuple[str, ...] = _SCHEMES, strict: bool
) -> Iterator[Problem]:
    if not isinstance(url, str):
        yield mistyped(field, "a string")
        return
    if len(url) > MAX_URL:
        yield too_long(field, MAX_URL)
        return
    shown = redact(url)
    try:
        parts = parse_request_uri(url)
        # Fails for a lone surrogate.
        url.encode()
    except ValueError:
        yield invalid(field, shown, f"invalid CRDs {what} URL")
        return
    if parts.scheme not in schemes:
        known = ", ".join(schemes[:-1])
        yield invalid(field, shown, f"scheme must be {known} or {schemes[-1]}")
        return
    yield from (invalid(field, shown, text) for text in _find_host_problems(parts))
    if "#" in url:
        yield invalid(field, shown, "must not have a fragment")
    if strict and parts.user is not None:
        yield invalid(field, shown, "must not have credentials: name a Secret in secretRef")


def _find_host_problems(parts: RequestURI) -> Iterator[str]:
    if not parts.hostname:
        yield "host is required"
    # The number may have any length: int() refuses thousands of digits.
    port = parts.port.lstrip("0")
    if parts.port and (len(port) > len(str(_MAX_PORT)) or not 1 <= int(port or "0") <= _MAX_PORT):
        yield "port must be between 1 and 65535"


def _find_proxy_problems(proxy: JSON, field: str, *, namespace: JSON, strict: bool) -> Iterator[Problem]:
    if proxy is None:
        return
    if not isinstance(proxy, dict):
        yield mistyped(field, "an object")
        return
    url = proxy.get("proxyURL")
    # Upstream reads a proxy without a URL as one with an empty URL.
    yield from _find_url_problems(
        "" if url is None else url, f"{field}.proxyURL", what="proxy", schemes=_PROXY_SCHEMES, strict=strict
    )
    yield from find_reference_problems(proxy.get("secretRef"), f"{field}.secretRef", namespace=namespace)
    for index, host in _enumerate_list(names := proxy.get("noProxy"), limit=MAX_NO_PROXY):
        if not isinstance(host, str):
            yield mistyped(f"{field}.noProxy[{index}]", "a string")
        elif not host.strip():
            yield required(f"{field}.noProxy[{index}]")
    yield from _find_length_problems(names, f"{field}.noProxy", limit=MAX_NO_PROXY)


def _find_mirror_problems(mirrors: JSON, field: str, *, strict: bool) -> Iterator[Problem]:
    for index, mirror in _enumerate_list(mirrors, limit=MAX_MIRRORS):
        yield from _find_url_problems(mirror, f"{field}[{index}]", what="mirror", strict=strict)
    yield from _find_length_problems(mirrors, field, limit=MAX_MIRRORS)


def _enumerate_list(values: JSON, *, limit: int) -> Iterator[tuple[int, JSON]]:
    yield from enumerate(values[:limit] if isinstance(values, list) else ())


def _find_length_problems(values: JSON, field: str, *, limit: int) -> Iterator[Problem]:
    if values is not None and not isinstance(values, list):
        yield mistyped(field, "a list")
    elif values and len(values) > limit:
        yield Problem(field, f"Too many: {len(values)}: must have at most {limit} items")


def _find_digest_problems(digest: JSON, field: str) -> Iterator[Problem]:
    if digest is None:
        return
    if not isinstance(digest, str):
        yield mistyped(field, "a string")
    elif not _SHA256.fullmatch(digest):
        yield invalid(field, digest, "must be 64 hexadecimal digits")


def _find_authority_problems(source: JSONObject, field: str, *, namespace: JSON) -> Iterator[Problem]:
    bundle, reference = source.get("caBundle"), source.get("caSecretRef")
    yield from bundle_problems(bundle, f"{field}.caBundle")
    yield from find_reference_problems(reference, f"{field}.caSecretRef", namespace=namespace)
    if bundle not in (None, "") and reference is not None:
        yield Problem(f"{field}.caSecretRef", "Forbidden: may not be set together with caBundle")


def _find_number_problems(value: JSON, field: str, *, limit: int) -> Iterator[Problem]:
    if value is None:
        return
    if not is_integer(value):
        yield mistyped(field, "an integer")
    elif not 1 <= value <= limit:
        yield Problem(field, f"Invalid value: must be between 1 and {limit}")
