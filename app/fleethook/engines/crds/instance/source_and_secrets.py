"""The source of a CRD tarball: URL, mirrors, pinned digest, credentials and limits.

Selects the source of an instance's tarball, by default the release's URL, and reads its Secrets.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError, get_object
from fleethook.cluster.kubernetes.watched_resources import api_path
from fleethook.engines.crds.instance.karmada_release import (
    build_release_url,
    parse_release,
    read_instance_release,
)
from fleethook.engines.crds.instance.source_validation import (
    aggregate_problems,
    find_problems,
    find_warnings,
    is_chosen_by_version,
    warn_about_release,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.crd_tarball import MAX_TARBALL_BYTES, CRDTarball, HTTPSource, LocalSource, Policy
from fleethook.model.json import JSON, JSONObject, as_object

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

SecretData = Mapping[str, bytes]
"""``data`` of a Secret, decoded."""
ReadSecret = Callable[[str], JSONObject | None]
"""Returns a Secret in the namespace of an instance by name, or None without one. It blocks."""

# The keys of the types kubernetes.io/basic-auth and kubernetes.io/tls, and the usual key of a token.
_USERNAME: Final = "username"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_AUTHORITIES: Final = "ca.crt"

_TIMEOUT_SECONDS: Final = 300.0
"""The default limit of a download, retries and mirrors included."""

# msgspec describes a type at its first use. In two threads at once, this crashes the process.
msgspec.json.Decoder(CRDTarball)


class Credentials(NamedTuple):
    """Credentials for an origin; never printed."""

    headers: tuple[tuple[str, str], ...] = ()
    username: str = ""
    password: str = ""
    client_certificate_pem: bytes = b""
    client_key_pem: bytes = b""


class TarballSource(NamedTuple):
    """A tarball over HTTP, and the settings of its download."""

    url: str
    proxy_url: str = ""
    """An explicit proxy; it takes precedence over those of the environment."""
    no_proxy: tuple[str, ...] = ()
    sha256: str = ""
    """The expected digest, hexadecimal; ``""`` for any."""
    mirrors: tuple[str, ...] = ()
    """URLs to try in order if the first one fails."""
    ca_pem: bytes = b""
    """Certificate authorities to trust instead of those of the system."""
    credentials: Credentials = Credentials()
    seconds: float = _TIMEOUT_SECONDS
    """Limit of the whole download, retries and mirrors included."""
    max_bytes: int = MAX_TARBALL_BYTES

    @property
    def key(self) -> str:
        """The name of the cache entry: the SHA-256 digest of the URL alone, as in Karmada's operator."""
        return hashlib.sha256(self.url.strip().encode()).hexdigest()


class SecretReferences(NamedTuple):
    """Names of Secrets in the namespace of the instance.

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
        seconds=float(http.timeout_seconds or _TIMEOUT_SECONDS),
        max_bytes=http.max_bytes or MAX_TARBALL_BYTES,
    )


def _read_references(http: HTTPSource | None) -> SecretReferences:
    if http is None:
        return SecretReferences()
    proxy = http.proxy.secret_ref if http.proxy else None
    names = [reference.name if reference else "" for reference in (http.secret_ref, http.ca_secret_ref, proxy)]
    return SecretReferences(*names)


def apply_secrets(chosen: SelectedSource, secrets: Mapping[str, SecretData]) -> TarballSource:
    """Return the source with the values of its Secrets.

    Args:
        chosen: The source of the tarball; its references name the Secrets.
        secrets: Data of these Secrets by name.

    Raises:
        CRDsError: A Secret is missing, or lacks a required key. The message has no value of a Secret.
    """
    source, names = chosen.source, chosen.references
    if names.authorities:
        source = source._replace(ca_pem=_read_key(secrets, names.authorities, _AUTHORITIES))
    if names.credentials:
        source = source._replace(credentials=_read_credentials(secrets, names.credentials))
    if names.proxy:
        username = _read_text(secrets, names.proxy, _USERNAME)
        password = _read_text(secrets, names.proxy, _PASSWORD)
        source = source._replace(proxy_url=_insert_user(source.proxy_url, username, password))
    return source


def _read_credentials(secrets: Mapping[str, SecretData], name: str) -> Credentials:
    data = _get_secret(secrets, name)
    credentials = Credentials()
    if _TOKEN in data:
        credentials = credentials._replace(headers=(("Authorization", f"Bearer {_read_text(secrets, name, _TOKEN)}"),))
    elif _USERNAME in data or _PASSWORD in data:
        credentials = credentials._replace(
            username=_read_text(secrets, name, _USERNAME), password=_read_text(secrets, name, _PASSWORD)
        )
    if _CERTIFICATE in data or _KEY in data:
        credentials = credentials._replace(
            client_certificate_pem=_read_key(secrets, name, _CERTIFICATE), client_key_pem=_read_key(secrets, name, _KEY)
        )
    if credentials == Credentials():
        keys = f"{_USERNAME} and {_PASSWORD}, {_TOKEN}, or {_CERTIFICATE} and {_KEY}"
        raise CRDsError(Exit.USAGE, f"the Secret {name} has none of {keys}")
    return credentials


def _get_secret(secrets: Mapping[str, SecretData], name: str) -> SecretData:
    if name not in secrets:
        # Transient: a user may create it soon.
        raise CRDsError(Exit.USAGE, f"there is no Secret {name}", transient=True)
    return secrets[name]


def _read_key(secrets: Mapping[str, SecretData], name: str, key: str) -> bytes:
    value = _get_secret(secrets, name).get(key)
    if not value:
        raise CRDsError(Exit.USAGE, f"the Secret {name} has no {key}")
    return value


def _read_text(secrets: Mapping[str, SecretData], name: str, key: str) -> str:
    try:
        # Editors end the last line with a line break, which is not a part of the value.
        text = _read_key(secrets, name, key).decode().removesuffix("\n")
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise CRDsError(Exit.USAGE, f"the Secret {name}: {key} must be one line of printable text")
    return text


def _insert_user(url: str, username: str, password: str) -> str:
    # Not urllib.parse: validation admits URLs as Go parses them, and Python's parser refuses some of these.
    scheme, rest = url.split("//", 1)
    end = min(position for position in (rest.find("/"), rest.find("?"), len(rest)) if position >= 0)
    host = rest[:end].rpartition("@")[2]
    return f"{scheme}//{quote(username, safe='')}:{quote(password, safe='')}@{host}{rest[end:]}"


def read_secrets(chosen: SelectedSource, read_secret: ReadSecret) -> Mapping[str, SecretData]:
    """Return the data of the Secrets that a source names, by name; missing ones are left out."""
    found = {name: read_secret(name) for name in set(chosen.references) if name}
    return {name: _decode_data(secret) for name, secret in found.items() if secret is not None}


def _decode_data(secret: JSONObject) -> SecretData:
    return {name: _decode_base64(value) for name, value in as_object(secret.get("data")).items()}


def _decode_base64(value: JSON) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        return b""


async def read_secret(connection: "Connection", namespace: str, name: str) -> JSONObject | None:
    """Return a Secret in the namespace of an instance, or None without one.

    Raises:
        CRDsError: USAGE if reading is forbidden, NETWORK without a response. The message has no value of the Secret.
    """
    path = f"{api_path('', 'v1')}/namespaces/{namespace}/secrets/{name}"
    try:
        return await get_object(connection, path)
    except APIError as error:
        raise CRDsError(Exit.USAGE, f"cannot read secrets/{name}: {error}", transient=True) from None
    except (UnreachableError, msgspec.DecodeError) as error:
        raise CRDsError(Exit.NETWORK, f"cannot read secrets/{name}: {error}", transient=True) from None
