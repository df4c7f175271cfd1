"""Credentials of webhooks that follow their files."""

import asyncio
import logging
from pathlib import Path
from typing import Final, NamedTuple

from yarl import URL

from app.dispatch.credentials.admission_configuration import find_kubeconfigs
from app.dispatch.credentials.files import CredentialFileError, Files
from app.dispatch.credentials.kubeconfig_users import NOBODY, Users, read_users
from app.dispatch.hooks import Hook, Phase
from app.outbound.credential import Credential

_log: Final = logging.getLogger(__name__)

# A mounted Secret takes up to a minute to change; looking at a few small files this often costs nothing.
_LOOK_SECONDS: Final = 2.0


class _Loaded(NamedTuple):
    users: dict[Phase, Users]
    content: dict[Path, bytes]


def _load(path: Path) -> _Loaded:
    files = Files()
    users = {phase: read_users(kubeconfig, files) for phase, kubeconfig in find_kubeconfigs(path, files).items()}
    return _Loaded(users, files.content)


def _content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Credentials:
    """As whom webhooks are called, by the AdmissionConfiguration in a file.

    Attributes:
        problem: Why the files as they are now are not used, ``""`` where they are.
    """

    def __init__(self, path: Path) -> None:
        """Read the files; raises CredentialFileError if they cannot be used."""
        self._path: Final = path
        self._loaded = _load(path)
        self.problem = ""

    def find(self, hook: Hook) -> Credential | None:
        """Return the credential for the host of a webhook, None if it is called without one.

        A user of any host (``*``, or that of the current context) is for webhooks of the cluster itself alone. The
        administrator of a logical cluster may name any host, and would get to know the credential there.
        """
        users = self._loaded.users.get(hook.phase, NOBODY)
        if hook.endpoint is None:
            return None
        try:
            url = URL(hook.endpoint.url)
        except ValueError:
            return None
        # Of the URL as it is called, so that no two readings of it can name two hosts.
        if not url.raw_host or url.port is None:
            return None
        host = f"[{url.raw_host}]" if ":" in url.raw_host else url.raw_host
        return users.find(host, url.port, default=not hook.cluster)

    def reload(self) -> bool:
        """Use the files as they are now, if they changed and can be used; return whether that was done."""
        if not self.problem and self._is_unchanged():
            return False
        try:
            found = _load(self._path)
        except CredentialFileError as error:
            if self.problem != str(error):
                self.problem = str(error)
                _log.error("the credentials of webhooks in use are kept: %s", error)
            return False
        self.problem = ""
        self._loaded = found
        _log.info("credentials of webhooks replaced", extra={"fields": {"file": str(self._path)}})
        return True

    def _is_unchanged(self) -> bool:
        return all(_content_of(path) == content for path, content in self._loaded.content.items())

    async def follow(self) -> None:
        """Reload whenever the files change, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.to_thread(self.reload)
