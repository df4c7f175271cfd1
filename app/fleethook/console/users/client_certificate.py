"""Users of client certificates: TLS verifies the certificate, its subject names the user and the groups.

The rules are those of kube-apiserver (k8s.io/apiserver/pkg/authentication/request/x509, CommonNameUserConversion).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fleethook.console.users.access import User

EXTENSION: Final = "fleethook.console-user"
"""The ASGI extension with the user of a client certificate: its member ``user`` is a `User`."""
AUTHENTICATED_GROUP: Final = "system:authenticated"
"""kube-apiserver adds this group to every authenticated user."""


def read_certificate_user(certificate: Mapping[str, Any] | None) -> User | None:
    """Return the user that a certificate names, None if it has no common name.

    Args:
        certificate: A verified certificate from ``ssl.SSLObject.getpeercert()``; None or empty without one.
    """
    pairs = [pair for rdn in (certificate or {}).get("subject", ()) for pair in rdn]
    # Go takes the last of several common names.
    name = next((value for key, value in reversed(pairs) if key == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(name, groups=(*groups, AUTHENTICATED_GROUP))


def find_certificate_user(scope: Scope) -> User | None:
    """Return the user of the client certificate of a request, None without one."""
    user: User | None = (scope.get("extensions") or {}).get(EXTENSION, {}).get("user")
    return user


class CertificateProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; it adds the user of the client certificate to each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Read the certificate. OpenSSL returns verified certificates only: TLS ends the handshake of any other."""
        super().connection_made(transport)
        secured = transport.get_extra_info("ssl_object")
        self._user = None if secured is None else read_certificate_user(secured.getpeercert())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        if self._user is not None:
            self.scope["extensions"] = {EXTENSION: {"user": self._user}}
