"""Reads the users of a kubeconfig by host (k8s.io/apiserver: pkg/util/webhook/authentication.go)."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.engines.dispatch.credentials.files import CredentialFileError, Files, check_type, read_objects, read_text
from fleethook.model.json import JSON, as_object
from fleethook.outbound.tls.credential import Credential, CredentialError

_HTTPS: Final = "443"
_EVERYBODY: Final = "*"
_UNSUPPORTED: Final = ("exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra")


class Users(NamedTuple):
    """The credentials for hosts."""

    by_host: Mapping[str, Credential]
    """By ``HOST``, ``HOST:PORT``, ``*.DOMAIN`` or ``*.DOMAIN:PORT``, in lower case."""
    default: Credential | None = None
    """For all other hosts: the user ``*``, or the user of the current context."""

    def find(self, host: str, port: int, *, default: bool) -> Credential | None:
        """Return the credential for a host, None without one.

        Args:
            host: The host of a URL.
            port: The port of the URL.
            default: Whether to return the credential for all other hosts.
        """
        for name in _list_names(f"{host.lower()}:{port}"):
            if name in self.by_host:
                return self.by_host[name]
        return self.default if default else None


NO_USERS: Final = Users({})


def _list_names(target: str) -> Iterator[str]:
    """Yield the user names that match a host, in order of precedence."""
    yield from _list_domains(target)
    host, _, port = target.rpartition(":")
    if port == _HTTPS:
        yield from _list_domains(host)


def _list_domains(target: str) -> Iterator[str]:
    yield target
    _, dot, rest = target.partition(".")
    while dot:
        yield f"*.{rest}"
        _, dot, rest = rest.partition(".")


def read_users(path: Path, files: Files) -> Users:
    """Read the users of a kubeconfig. As in an apiserver, its clusters are ignored.

    Args:
        path: The path of the kubeconfig.
        files: Reads the kubeconfig, and the files that it names.

    Raises:
        CredentialFileError: A file is invalid.
    """
    config = files.read_object(path)
    # apiVersion and kind are optional in any kubeconfig.
    check_type({"apiVersion": "v1", "kind": "Config", **config}, api_version="v1", kind="Config", where=str(path))
    found: dict[str, Credential] = {}
    for number, entry in enumerate(read_objects(config, "users", where=str(path))):
        name = read_text(entry, "name", where=f"{path}: users[{number}]").lower()
        where = f"{path}: user {name!r}"
        if not name:
            raise CredentialFileError(f"{path}: users[{number}] has no name")
        if name in found:
            raise CredentialFileError(f"{where} is a duplicate")
        found[name] = _read_credential(as_object(entry.get("user")), path.parent, files, where=where)
    current = found.get(_find_current(config, path))
    return Users(found, found.pop(_EVERYBODY, current))


def _find_current(config: Mapping[str, JSON], path: Path) -> str:
    current = read_text(config, "current-context", where=str(path))
    for entry in read_objects(config, "contexts", where=str(path)):
        if current and entry.get("name") == current:
            return read_text(as_object(entry.get("context")), "user", where=f"{path}: context {current!r}").lower()
    return ""


def _read_credential(user: Mapping[str, JSON], directory: Path, files: Files, *, where: str) -> Credential:
    for member in _UNSUPPORTED:
        if user.get(member):
            raise CredentialFileError(
                f"{where}: {member} is not supported: use a client certificate, a token or a tokenFile"
            )
    try:
        return Credential(
            token=_read_token(user, directory, files, where=where),
            username=read_text(user, "username", where=where),
            password=read_text(user, "password", where=where),
            certificate_pem=_read_pem(user, "client-certificate", directory, files, where=where),
            key_pem=_read_pem(user, "client-key", directory, files, where=where),
        )
    except CredentialError as error:
        raise CredentialFileError(f"{where}: {error}") from None


def _read_token(user: Mapping[str, JSON], directory: Path, files: Files, *, where: str) -> bytes:
    """Return the token; tokenFile takes precedence (client-go: transport/round_trippers.go)."""
    token, file = read_text(user, "token", where=where).encode(), read_text(user, "tokenFile", where=where)
    if not file:
        return token
    try:
        return files.read(directory / file).strip() or token
    except CredentialFileError as error:
        if token:
            return token
        raise CredentialFileError(f"{where}: tokenFile {error}") from None


def _read_pem(user: Mapping[str, JSON], member: str, directory: Path, files: Files, *, where: str) -> bytes:
    """Return a certificate or a key; inline data takes precedence over a file (client-go: rest/config.go)."""
    data, file = read_text(user, f"{member}-data", where=where), read_text(user, member, where=where)
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise CredentialFileError(f"{where}: {member}-data is not base64") from None
    if not file:
        return b""
    try:
        return files.read(directory / file)
    except CredentialFileError as error:
        raise CredentialFileError(f"{where}: {member} {error}") from None
