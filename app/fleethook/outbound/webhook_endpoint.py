"""The endpoint of a webhook: its URL, and the credential for it."""

import base64
import contextlib
import hashlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from typing import Final, NamedTuple


class WebhookEndpoint(NamedTuple):
    """The URL of a webhook, and the certificate that it must present."""

    url: str
    server_name: str = ""
    """The name that the certificate must contain, ``""`` for the host of the URL."""
    ca_bundle: str = ""
    """Certificate authorities, PEM in base64; ``""`` for those of the system."""
    service: bool = False
    """Whether the endpoint is a Service of the cluster, whose address is always private."""


# RFC 9110 field-value: other characters in a token could end the header or the request.
_HEADER_VALUE: Final = re.compile(rb"[!-~](?:[ -~]*[!-~])?")


class CredentialError(ValueError):
    """The credential cannot be used; the text contains no part of it."""


class Credential:
    """Authenticates this server to a webhook. Equal credentials share connections; no text shows a secret.

    Attributes:
        authorization: The Authorization header, ``""`` for none.
        has_certificate: Whether there is a client certificate.
    """

    __slots__ = ("_digest", "_pair", "authorization", "has_certificate")

    def __init__(
        self,
        *,
        token: bytes = b"",
        username: str = "",
        password: str = "",
        certificate_pem: bytes = b"",
        key_pem: bytes = b"",
    ) -> None:
        """Validate a credential; an empty one means anonymous calls.

        Raises:
            CredentialError: The credential cannot be used.
        """
        self.authorization: Final = _authorization(token.strip(), username, password)
        if bool(certificate_pem) != bool(key_pem):
            raise CredentialError("client certificate or key is missing: set both or none")
        self.has_certificate: Final = bool(certificate_pem)
        self._pair: Final = certificate_pem + b"\n" + key_pem
        self._digest: Final = hashlib.sha256(repr((self.authorization, self._pair)).encode()).digest()
        if self.has_certificate:
            self.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Credential) and other._digest == self._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return "Credential(…)"

    def load(self, context: ssl.SSLContext) -> None:
        """Add the client certificate, if there is one, to a TLS context; raises CredentialError."""
        if not self.has_certificate:
            return
        try:
            with as_file(self._pair) as path:
                # Without this function, OpenSSL asks on the terminal for the password of an encrypted key.
                context.load_cert_chain(path, password=lambda: b"")
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror or "unreadable"
            raise CredentialError(
                f"the client certificate and its key cannot be used: {str(reason).replace('_', ' ').lower()}; "
                "both must be PEM and match, and the key must not be encrypted"
            ) from None


def _authorization(token: bytes, username: str, password: str) -> str:
    if token and (username or password):
        raise CredentialError("username/password or bearer token may be set, but not both")
    if token:
        if not _HEADER_VALUE.fullmatch(token):
            raise CredentialError("the token contains characters that are invalid in an HTTP header")
        return f"Bearer {token.decode('ascii')}"
    if username or password:
        return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode('ascii')}"
    return ""


@contextlib.contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a temporary file, in memory on Linux: ``ssl`` reads keys from files only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("credential")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
