"""The bodies of a record: reviews and answers as they were received and sent."""

import base64
import binascii
from typing import Final

import msgspec


class BodyError(ValueError):
    """A body is not in the form that the format defines."""


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class _Base64(msgspec.Struct, forbid_unknown_fields=True):
    base64: str


_decode_text: Final = msgspec.json.Decoder(_Text).decode
_decode_base64: Final = msgspec.json.Decoder(_Base64).decode
# A body with one of these members only is itself kept as text, so no JSON body begins so.
_TEXT: Final = b'{"text":'
_BASE64: Final = b'{"base64":'


def unwrap_body(raw: msgspec.Raw) -> bytes:
    """Return the bytes of a body, which may be no JSON and no UTF-8.

    Args:
        raw: The member ``review`` or ``answer`` of a record.

    Raises:
        BodyError: The base64 is damaged.
    """
    body = bytes(raw)
    try:
        if body.startswith(_TEXT):
            return _decode_text(body).text.encode()
        if body.startswith(_BASE64):
            return base64.b64decode(_decode_base64(body).base64, validate=True)
    except msgspec.ValidationError:
        return body
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BodyError(f"the body is damaged: {error}") from None
    return body
