"""Reloads the credentials for webhooks when their files change."""

import asyncio
import logging
from pathlib import Path
from typing import Final, NamedTuple

from yarl import URL

from fleethook.engines.dispatch.credentials.admission_configuration import find_kubeconfigs
from fleethook.engines.dispatch.credentials.files import CredentialFileError, Files
from fleethook.engines.dispatch.credentials.kubeconfig_users import NO_USERS, Users, read_users
from fleethook.engines.dispatch.hooks.hooks import Hook, Phase
from fleethook.outbound.tls.credential import Credential

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
