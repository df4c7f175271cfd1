"""Reads the credentials for webhooks, and reloads them when their files change.

As in an apiserver, an AdmissionConfiguration names a kubeconfig for each phase (k8s.io/apiserver:
pkg/admission/config.go), whose users are selected by host (pkg/util/webhook/authentication.go). Errors name the file
and the field, never a value.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from yarl import URL

from fleethook.cluster.manifests.yaml_reader import ManifestError, read_values
from fleethook.engine import EngineStartError
from fleethook.engines.dispatch.hooks.hooks import Hook, Phase
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.outbound.endpoint import Credential, CredentialError


class CredentialFileError(EngineStartError):
    """A credential file is invalid; the message has the place, the reason and the remedy."""


class Files:
    """Reads files, and keeps their content to detect changes.

    Attributes:
        content: The content of each file by path, empty for an unreadable file.
    """

    def __init__(self) -> None:
        """Start without files."""
        self.content: Final[dict[Path, bytes]] = {}

    def read(self, path: Path) -> bytes:
        """Return the content of a file; raises CredentialFileError."""
        self.content[path] = b""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CredentialFileError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
        self.content[path] = content
        return content

    def read_object(self, path: Path) -> JSONObject:
        """Return the one object of a YAML file; raises CredentialFileError."""
        try:
            values = read_values(self.read(path).decode(), source=str(path))
        except UnicodeDecodeError:
            raise CredentialFileError(f"{path} is not UTF-8") from None
        except ManifestError as error:
            # The reason may quote the file.
            raise CredentialFileError(f"{path}:{error.line}: is not valid YAML") from None
        if len(values) != 1 or not isinstance(values[0].value, dict):
            raise CredentialFileError(f"{path} must hold one YAML object")
        return values[0].value


def check_type(found: Mapping[str, JSON], *, api_version: str, kind: str, where: str) -> None:
    """Raise CredentialFileError unless an object is of a kind."""
    if (found.get("apiVersion"), found.get("kind")) != (api_version, kind):
        raise CredentialFileError(f"{where} must be of kind {kind} in {api_version}")


def check_members(found: Mapping[str, JSON], known: Collection[str], *, where: str) -> None:
    """Raise CredentialFileError if an object has unknown members; an apiserver decodes these files strictly."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise CredentialFileError(f"{where} has an unknown field {unknown[0]!r}")


def read_text(found: Mapping[str, JSON], member: str, *, where: str) -> str:
    """Return a string member, ``""`` if it is missing; raises CredentialFileError."""
    value = found.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CredentialFileError(f"{where}: {member} must be a string")
    return value


def read_objects(found: Mapping[str, JSON], member: str, *, where: str) -> list[Mapping[str, JSON]]:
    """Return a member that is a list of objects, empty if it is missing; raises CredentialFileError."""
    value = found.get(member)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise CredentialFileError(f"{where}: {member} must be a list of objects")
    return [as_object(one) for one in value]


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


API_VERSION: Final = "apiserver.config.k8s.io/v1"
_PLUGINS: Final[Mapping[str, Phase]] = {
    "MutatingAdmissionWebhook": "mutating",
    "ValidatingAdmissionWebhook": "validating",
    "apis.kcp.io/MutatingWebhook": "mutating",
    "apis.kcp.io/ValidatingWebhook": "validating",
}


def find_kubeconfigs(path: Path, files: Files) -> dict[Phase, Path]:
    """Return the ``kubeConfigFile`` of each phase in an AdmissionConfiguration.

    Args:
        path: The path of the AdmissionConfiguration.
        files: Reads the AdmissionConfiguration, and the files that it names.

    Raises:
        CredentialFileError: A file is invalid.
    """
    configuration = files.read_object(path)
    check_type(configuration, api_version=API_VERSION, kind="AdmissionConfiguration", where=str(path))
    check_members(configuration, ("apiVersion", "kind", "plugins"), where=str(path))
    found: dict[Phase, Path] = {}
    for plugin in read_objects(configuration, "plugins", where=str(path)):
        check_members(plugin, ("name", "path", "configuration"), where=f"{path}: plugins")
        name = read_text(plugin, "name", where=f"{path}: plugins")
        phase = _PLUGINS.get(name)
        if phase is None:
            continue
        kubeconfig = _find_kubeconfig(plugin, path, files, where=f"{path}: plugin {name}")
        if kubeconfig is not None and found.setdefault(phase, kubeconfig) != kubeconfig:
            raise CredentialFileError(
                f"{path}: two plugins name different kubeConfigFiles for {phase} webhooks: remove one of them"
            )
    return found


def _find_kubeconfig(plugin: Mapping[str, JSON], path: Path, files: Files, *, where: str) -> Path | None:
    configuration = plugin.get("configuration")
    if configuration is None:
        elsewhere = read_text(plugin, "path", where=where)
        if not elsewhere:
            return None
        where = str(path.parent / elsewhere)
        configuration = files.read_object(path.parent / elsewhere)
    webhooks = as_object(configuration)
    check_type(webhooks, api_version=API_VERSION, kind="WebhookAdmissionConfiguration", where=where)
    check_members(webhooks, ("apiVersion", "kind", "kubeConfigFile", "staticManifestsDir"), where=where)
    if webhooks.get("staticManifestsDir"):
        # Ignoring the webhooks of these manifests would admit objects unchecked.
        raise CredentialFileError(f"{where}: staticManifestsDir is not supported: remove it, and use --manifests")
    kubeconfig = read_text(webhooks, "kubeConfigFile", where=where)
    if not kubeconfig:
        return None
    if not Path(kubeconfig).is_absolute():
        raise CredentialFileError(f"{where}: kubeConfigFile must be an absolute file path")
    return Path(kubeconfig)


_log: Final = logging.getLogger(__name__)

# A mounted Secret takes up to a minute to change. Reading a few small files this often costs nothing.
_POLL_SECONDS: Final = 2.0


class _Loaded(NamedTuple):
    users: dict[Phase, Users]
    content: dict[Path, bytes]


def _load(path: Path) -> _Loaded:
    files = Files()
    users = {phase: read_users(kubeconfig, files) for phase, kubeconfig in find_kubeconfigs(path, files).items()}
    return _Loaded(users, files.content)


def _read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Credentials:
    """The credentials for webhooks, from the AdmissionConfiguration in a file.

    Attributes:
        problem: Why the current files are not used, ``""`` if they are used.
    """

    def __init__(self, path: Path) -> None:
        """Read the files; raises CredentialFileError if they are invalid."""
        self._path: Final = path
        self._loaded = _load(path)
        self.problem = ""

    def find(self, hook: Hook) -> Credential | None:
        """Return the credential for the host of a webhook, None without one.

        The user for all other hosts (``*``, or that of the current context) is only for webhooks of the cluster itself.
        The administrator of a logical cluster may name any host, and would receive the credential there.
        """
        users = self._loaded.users.get(hook.phase, NO_USERS)
        if hook.endpoint is None:
            return None
        try:
            url = URL(hook.endpoint.url)
        except ValueError:
            return None
        # The host of the called URL: two parsers could find two hosts in it.
        if not url.raw_host or url.port is None:
            return None
        host = f"[{url.raw_host}]" if ":" in url.raw_host else url.raw_host
        return users.find(host, url.port, default=not hook.cluster)

    def reload(self) -> bool:
        """Reload the files if they changed and are valid; return whether they were reloaded."""
        if not self.problem and self._is_unchanged():
            return False
        try:
            found = _load(self._path)
        except CredentialFileError as error:
            if self.problem != str(error):
                self.problem = str(error)
                _log.error("failed to reload the credentials for webhooks, keeping the current ones: %s", error)
            return False
        self.problem = ""
        self._loaded = found
        _log.info("reloaded the credentials for webhooks", extra={"fields": {"file": str(self._path)}})
        return True

    def _is_unchanged(self) -> bool:
        return all(_read_content(path) == content for path, content in self._loaded.content.items())

    async def follow(self) -> None:
        """Reload whenever the files change, until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await asyncio.to_thread(self.reload)
