"""Replaces values by hashes, consistently within a process."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

import msgspec

from fleethook.model.json import JSON

PREFIX: Final = "hmac-sha256:"
_DIGITS: Final = 32


class Hasher:
    """Hashes values with a random key.

    Anybody could guess a short password from its plain SHA-256. Equal values get equal hashes in one process.
    """

    def __init__(self, key: bytes) -> None:
        """Initialize the hasher; the key must not leave the process."""
        self._key: Final = key

    def hash_text(self, text: str) -> str:
        """Return the hash that replaces a text."""
        return self.hash_bytes(text.encode("utf-8", "surrogatepass"))

    def hash_base64(self, text: str) -> str:
        """Return the hash that replaces base64 text: base64 of the hash of its bytes, so that it stays decodable."""
        return base64.b64encode(self.hash_bytes(decode_base64(text)).encode()).decode()

    def hash_value(self, value: JSON) -> str:
        """Return the hash that replaces a JSON value of any type."""
        return (
            self.hash_text(value)
            if isinstance(value, str)
            else self.hash_bytes(msgspec.json.encode(value, order="sorted"))
        )

    def hash_bytes(self, value: bytes) -> str:
        """Return the hash that replaces bytes."""
        return PREFIX + hmac.new(self._key, value, hashlib.sha256).hexdigest()[:_DIGITS]


def decode_base64(text: str) -> bytes:
    """Return the bytes of base64 text; the text itself if it is no base64."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "surrogatepass")
