"""Adds credentials and authorities of an instance's Secrets to its source; the caller reads the Secrets."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.source_selection import SelectedSource
from fleethook.engines.crds.source import Credentials, Source

SecretData = Mapping[str, bytes]
"""``data`` of a Secret, decoded."""

# The keys of the types kubernetes.io/basic-auth and kubernetes.io/tls, and the usual key of a token.
_USERNAME: Final = "username"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_AUTHORITIES: Final = "ca.crt"


def apply_secrets(chosen: SelectedSource, secrets: Mapping[str, SecretData]) -> Source:
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
