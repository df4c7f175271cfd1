"""Reads tarballs inside a cluster: over HTTP with credentials of Secrets, or from a volume."""

import base64
import binascii
import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from fleethook.engines.crds.archive.archive import read_regular
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.transfer import TarballFile
from fleethook.engines.crds.fetch import Downloaded, Downloader, Progress, Validators, download
from fleethook.engines.crds.instance.source_selection import SelectedSource
from fleethook.engines.crds.tarball_source import Credentials, TarballSource
from fleethook.model.json import JSON, JSONObject, as_object

SecretData = Mapping[str, bytes]
"""``data`` of a Secret, decoded."""

# The keys of the types kubernetes.io/basic-auth and kubernetes.io/tls, and the usual key of a token.
_USERNAME: Final = "username"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_AUTHORITIES: Final = "ca.crt"


class Reach(NamedTuple):
    """The hosts and files that instances may name. Users who can write an instance choose among them."""

    private: bool = True
    """Whether private, loopback and link-local addresses are allowed."""
    hosts: tuple[str, ...] = ()
    """The only allowed hosts; empty for any."""
    local: Path | None = None
    """The directory of local tarballs; None allows no local tarball."""


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
        wanted = f"{_USERNAME} and {_PASSWORD}, {_TOKEN}, or {_CERTIFICATE} and {_KEY}"
        raise CRDsError(Exit.USAGE, f"the Secret {name} has none of {wanted}")
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


ReadSecret = Callable[[str], JSONObject | None]
"""Returns a Secret in the namespace of an instance by name, or None without one. It blocks."""


def build_downloader(
    chosen: SelectedSource,
    read_secret: ReadSecret,
    reach: Reach,
    *,
    starting: Callable[[], None],
) -> Downloader:
    """Return a function that downloads or copies a tarball. Call it on a thread: it blocks.

    Args:
        chosen: The source of the tarball.
        read_secret: Reads Secrets in the namespace of the instance.
        reach: The hosts and files that the instance may name.
        starting: Called before the request to the origin; not called for a cached tarball.
    """

    def fetch_bytes(
        source: TarballSource,
        into: Path,
        *,
        validators: Validators | None,
        progress: Progress | None,
        env_proxies: bool,
    ) -> Downloaded:
        starting()
        if chosen.local is not None:
            return _copy_local(Path(chosen.local.path), reach.local, into, source)
        return download(
            apply_secrets(chosen, _read_secrets(chosen, read_secret)),
            into,
            validators=validators,
            progress=progress,
            env_proxies=env_proxies,
            allow_private=reach.private,
            allow_hosts=reach.hosts,
        )

    return fetch_bytes


def _copy_local(path: Path, allowed: Path | None, into: Path, source: TarballSource) -> Downloaded:
    if allowed is None:
        raise CRDsError(Exit.USAGE, f"{path}: the controller has no directory of local tarballs (--local-root)")
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(allowed.resolve()):
            raise CRDsError(Exit.USAGE, f"{path} is not below the directory of local tarballs (--local-root {allowed})")
        data = read_regular(real, most=source.max_bytes)
    except FileNotFoundError:
        raise CRDsError(Exit.USAGE, f"there is no {path}", transient=True) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            text = f"{source.url}: larger than the limit of {source.max_bytes} bytes"
            raise CRDsError(Exit.LIMIT, text) from None
        raise CRDsError(Exit.DISK, f"cannot read {path}: {error.strerror or error}", transient=True) from error
    with TarballFile(into, max_bytes=source.max_bytes) as file:
        file.add(data)
        return Downloaded(True, file.finish(), file.size, Validators(), source.url, 0)


def _read_secrets(chosen: SelectedSource, read_secret: ReadSecret) -> Mapping[str, Mapping[str, bytes]]:
    found = {name: read_secret(name) for name in set(chosen.references) if name}
    return {name: _decode_data(secret) for name, secret in found.items() if secret is not None}


def _decode_data(secret: JSONObject) -> Mapping[str, bytes]:
    return {name: _decode_base64(value) for name, value in as_object(secret.get("data")).items()}


def _decode_base64(value: JSON) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""
