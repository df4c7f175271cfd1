"""Warnings about ``spec.crdTarball``: valid, but insecure or ambiguous."""

from collections.abc import Iterator
from typing import Final

from fleethook.engines.crds.instance.http_validation import MAX_MIRRORS
from fleethook.engines.crds.instance.validation import FIELD
from fleethook.engines.crds.instance.version import read_instance_release
from fleethook.model.formats.client_config import MAX_URL
from fleethook.model.formats.go_url import RequestURI, parse_request_uri
from fleethook.model.json import JSON, JSONObject, as_object

_CREDENTIALS_IN_URL: Final = (
    "the URL has credentials, and every user who can read this object can read them; use {instead}"
)
_PLAIN_HTTP: Final = "plain http without sha256: an attacker on the network can replace the CRDs"


def find_warnings(karmada: JSONObject) -> Iterator[str]:
    """Yield warnings about an instance; fields may have any type, and invalid fields get no warning."""
    tarball = as_object(as_object(karmada.get("spec")).get("crdTarball"))
    source = as_object(tarball.get("httpSource"))
    for field, url in _list_origins(source):
        if (parts := _parse(url)) is not None:
            yield from _find_origin_warnings(parts, f"{FIELD}.httpSource.{field}", pinned=bool(source.get("sha256")))
    proxy = _parse(as_object(source.get("proxy")).get("proxyURL"))
    if proxy is not None and proxy.user is not None:
        yield f"{FIELD}.httpSource.proxy.proxyURL: {_CREDENTIALS_IN_URL.format(instead='proxy.secretRef')}"
    if is_chosen_by_version(tarball) and (warning := read_instance_release(karmada).warning):
        yield warning


def is_chosen_by_version(tarball: JSON) -> bool:
    """Return whether a version selects the tarball: no field names a URL, release, file or ConfigMap."""
    given = as_object(tarball)
    named = as_object(given.get("httpSource")).get("url"), given.get("version")
    return all(member is None for member in (*named, given.get("localSource"), given.get("configMapSource")))


def _list_origins(source: JSON) -> Iterator[tuple[str, JSON]]:
    yield "url", source.get("url")
    mirrors = source.get("mirrors")
    for index, mirror in enumerate(mirrors[:MAX_MIRRORS] if isinstance(mirrors, list) else ()):
        yield f"mirrors[{index}]", mirror


def _find_origin_warnings(parts: RequestURI, field: str, *, pinned: bool) -> Iterator[str]:
    if parts.user is not None:
        yield f"{field}: {_CREDENTIALS_IN_URL.format(instead='secretRef')}"
    if parts.scheme == "http" and not pinned:
        yield f"{field}: {_PLAIN_HTTP}"


def _parse(url: JSON) -> RequestURI | None:
    if not isinstance(url, str) or len(url) > MAX_URL:
        return None
    try:
        return parse_request_uri(url)
    except ValueError:
        return None
