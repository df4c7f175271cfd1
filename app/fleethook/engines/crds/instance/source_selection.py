"""Selects the source of an instance's tarball, by default the release's URL."""

import base64
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from fleethook.engines.crds.instance.instance_validation import (
    aggregate_problems,
    find_problems,
    find_warnings,
    is_chosen_by_version,
    warn_about_release,
)
from fleethook.engines.crds.instance.karmada_instance import build_release_url, parse_release, read_instance_release
from fleethook.engines.crds.sources_and_errors import CRDsError, Exit, Policy, TarballSource
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.operator import CRDTarball, HTTPSource, LocalSource

# msgspec describes a type at its first use. In two threads at once, this crashes the process.
msgspec.json.Decoder(CRDTarball)
_DEFAULTS: Final = TarballSource("")._field_defaults


class SecretReferences(NamedTuple):
    """Names of Secrets in the namespace of the instance, for `fleethook.engines.crds.controller.instance_fetches`.

    An unused reference is ``""``.
    """

    credentials: str = ""
    authorities: str = ""
    proxy: str = ""


class SelectedSource(NamedTuple):
    """The source of an instance's tarball, and its download policy."""

    source: TarballSource
    """A local file has a URL too (``file:``), from which its cache key is computed."""
    policy: Policy
    warnings: tuple[str, ...] = ()
    references: SecretReferences = SecretReferences()
    local: LocalSource | None = None
    """The local file with the tarball; None for HTTP."""


def select_source(
    karmada: JSONObject, *, version: str, follow_instance: bool = False, strict: bool = False
) -> SelectedSource:
    """Return the source of an instance's tarball.

    Each missing field gets its default. Upstream (operator/pkg/init.go, v1.17.1) uses its default only without a
    ``crdTarball``, and dereferences nil if ``httpSource`` is missing.

    Args:
        karmada: The instance; fields may have any type.
        version: Version of the operator. It is parsed only if no other field names the release.
        follow_instance: Prefer the common release of all components' images to the operator's.
        strict: Refuse credentials in URLs.

    Raises:
        CRDsError: The instance is invalid (the message is upstream's), or its release is unknown.
    """
    found = list(find_problems(karmada, strict=strict))
    if found:
        raise CRDsError(Exit.USAGE, aggregate_problems(found))
    given = as_object(as_object(karmada.get("spec")).get("crdTarball"))
    tarball = msgspec.convert(_drop_nulls(given), CRDTarball)
    warnings = list(find_warnings(karmada))
    local = tarball.local_source
    if local is not None:
        source = TarballSource(f"file://{quote(local.path)}")
    else:
        http = tarball.http_source or HTTPSource()
        release = tarball.version or ""
        if is_chosen_by_version(given):
            release, more = _choose_release(karmada, version=version, follow_instance=follow_instance)
            warnings += more
        source = _build_http_source(http, url=http.url if http.url is not None else build_release_url(release))
    policy = Policy(tarball.crd_download_policy)
    return SelectedSource(source, policy, tuple(warnings), _read_references(tarball.http_source), local)


def _drop_nulls(value: Mapping[str, JSON]) -> JSONObject:
    # The API server treats null as a missing field. Validation admits known fields only, so the depth is bounded.
    return {
        name: _drop_nulls(inner) if isinstance(inner, dict) else inner
        for name, inner in value.items()
        if inner is not None
    }


def _choose_release(karmada: JSONObject, *, version: str, follow_instance: bool) -> tuple[str, list[str]]:
    instance = read_instance_release(karmada).release
    if follow_instance and instance:
        return instance, []
    operator = parse_release(version)
    if instance in ("", operator):
        return operator, []
    return operator, [warn_about_release(instance, operator)]


def _build_http_source(http: HTTPSource, *, url: str) -> TarballSource:
    proxy = http.proxy
    return TarballSource(
        url,
        proxy_url=proxy.proxy_url if proxy else "",
        no_proxy=tuple(name.strip() for name in (proxy.no_proxy if proxy else None) or ()),
        sha256=(http.sha256 or "").lower(),
        mirrors=tuple(http.mirrors or ()),
        ca_pem=base64.b64decode(http.ca_bundle or ""),
        seconds=float(http.timeout_seconds or _DEFAULTS["seconds"]),
        max_bytes=http.max_bytes or _DEFAULTS["max_bytes"],
    )


def _read_references(http: HTTPSource | None) -> SecretReferences:
    if http is None:
        return SecretReferences()
    proxy = http.proxy.secret_ref if http.proxy else None
    names = [reference.name if reference else "" for reference in (http.secret_ref, http.ca_secret_ref, proxy)]
    return SecretReferences(*names)
