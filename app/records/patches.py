"""The patches in a record: base64 text in answers of webhooks, operations while a record is redacted."""

import base64
import binascii
from typing import Final

import msgspec

from app.model.json import JSON

_DEPTH_LIMIT: Final = 200


class Patch(list[JSON]):
    """The operations of a patch that is base64 text in the record."""


def open_patches(value: JSON, depth: int = 0) -> JSON:
    """Return a copy in which base64 patches are replaced by their operations; raises RecursionError."""
    if depth > _DEPTH_LIMIT:
        raise RecursionError
    if isinstance(value, list):
        return [open_patches(element, depth + 1) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _open_patch(member) if name == "patch" else open_patches(member, depth + 1)
        for name, member in value.items()
    }


def _open_patch(value: JSON) -> JSON:
    if not isinstance(value, str):
        return open_patches(value)
    try:
        operations: JSON = msgspec.json.decode(base64.b64decode("".join(value.split()), validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return value
    return Patch(operations) if isinstance(operations, list) else value


def close_patches(value: JSON) -> JSON:
    """Return a copy in which the operations of patches are base64 text again."""
    if isinstance(value, Patch):
        return base64.b64encode(msgspec.json.encode(list(value))).decode()
    if isinstance(value, list):
        return [close_patches(element) for element in value]
    if isinstance(value, dict):
        return {name: close_patches(member) for name, member in value.items()}
    return value
