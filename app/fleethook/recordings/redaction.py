"""Refuses reviews that may contain a Secret, and hashes the fields that a setting names, before a record is written.

A recording that may contain a Secret is not made: its values occur in objects, patches, annotations, and messages of
webhooks, in many encodings. So a review of a Secret, or one with a manifest of a Secret at any place, is not recorded.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch.pointer_and_limits import parse
from fleethook.recordings.recording_format import Record, RecordedCall, unwrap_body
from fleethook.server.reviews.records_and_traces import RecordSettingError

PREFIX: Final = "hmac-sha256:"
_DIGITS: Final = 32
_NAME: Final = re.compile(r"[^/:*\s]+")
_ANY: Final = "*"
_KINDS: Final = ("Secret", "SecretList")
# A reference to a Secret has its kind and its name. A manifest has one of these members, too.
_MANIFEST_MEMBERS: Final = frozenset({"metadata", "data", "stringData", "items"})
# YAML or damaged JSON in a text, for example in a ConfigMap.
_MANIFEST: Final = re.compile(r"""kind["'\\\s]*:["'\\\s]*Secret(List)?\b""")
# JSON can escape each letter of the kind. Go also escapes &, < and >, which begin no name.
_ESCAPE: Final = rb"\\u00(?!26|3[cCeE])[2-7]"
_MAX_DEPTH: Final = 200
_decode_calls: Final = msgspec.json.Decoder(list[RecordedCall]).decode


class SecretError(Exception):
    """A record may contain a Secret, so it must not be written."""


class RedactedField(NamedTuple):
    """A field of objects whose values are hashed.

    Attributes:
        kind: The kind of the objects, ``""`` for all kinds. A single name without path, for members of that name
            anywhere, has ``kind`` ``*``.
        tokens: The path in the object; ``*`` stands for any member or element.
    """

    kind: str
    tokens: tuple[str, ...]


def parse_field(text: str) -> RedactedField:
    """Return the field that a text names.

    Args:
        text: ``name`` for each member of that name, or ``/path/to/*/field`` in each object, or
            ``Kind:/path/to/*/field`` in each object of a kind.

    Raises:
        ValueError: The text names no field.
    """
    if _NAME.fullmatch(text):
        return RedactedField(_ANY, (text,))
    kind, _, path = ("", "", text) if text.startswith("/") else text.partition(":")
    tokens = tuple(parse(path)) if path.startswith("/") else ()
    has_kind = path == text or _NAME.fullmatch(kind) is not None
    if not has_kind or not any(token not in ("", _ANY) for token in tokens):
        raise ValueError(f"{text!r} names no field: write a name, /path/to/*/field or Kind:/path/to/*/field")
    return RedactedField(kind, tokens)


class Redactor:
    """Decides which records may be written, and hashes the values of fields."""

    def __init__(self, key: bytes, fields: Sequence[RedactedField] = ()) -> None:
        """Initialize the redactor.

        Args:
            key: The key of the hashes. It must not leave the process: with it, anybody could guess short values.
            fields: The fields to hash.
        """
        self._key: Final = key
        self._names: Final = frozenset(field.tokens[0] for field in fields if field.kind == _ANY)
        self._paths: Final = [field for field in fields if field.kind != _ANY]
        needles = [next(token for token in reversed(field.tokens) if token not in ("", _ANY)) for field in fields]
        words = "|".join(["Secret", *map(re.escape, needles)]).encode()
        # Most records have none of these words, and need not be decoded. Text in UTF-16 has zeros.
        self._words: Final = re.compile(words + b"|" + _ESCAPE + b"|\\x00")

    def redact(self, record: Record) -> Record:
        """Return a record with hashes in place of the fields; the record itself if it has none of them.

        Raises:
            SecretError: The record may contain a Secret.
        """
        calls = msgspec.json.encode(record.calls)
        texts = [unwrap_body(record.review), unwrap_body(record.answer), calls]
        if not any(self._words.search(_open_text(text)) for text in texts):
            return record
        try:
            bodies = [_decode_body(raw) for raw in (record.review, record.answer)]
            values = [_open_patches(value) for value in (*bodies, msgspec.json.decode(calls))]
        except (ValueError, RecursionError) as error:  # msgspec's and UTF-8's errors are ValueErrors
            raise SecretError from error
        if _is_about_secret(values[0]) or any(map(_has_secret, values)):
            raise SecretError
        hashed = [self._redact(value) for value in values]
        if hashed == values:
            return record
        review, answer, calls = (msgspec.json.encode(_close_patches(value)) for value in hashed)
        return msgspec.structs.replace(
            record,
            redacted=True,
            review=msgspec.Raw(review),
            answer=msgspec.Raw(answer),
            calls=_decode_calls(calls),
        )

    def _redact(self, value: JSON) -> JSON:
        """Return a copy of a value with hashes in place of the fields."""
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, _Patch):
            return _Patch(self._redact_operation(operation) for operation in value)
        if isinstance(value, list):
            return [self._redact(element) for element in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("kind")
        for field in self._paths:
            if kind is not None and field.kind in ("", kind):
                value = as_object(_replace_at(value, field.tokens, self._hash_leaves))
        return {
            name: self._hash_leaves(member) if name in self._names else self._redact(member)
            for name, member in value.items()
        }

    def _redact_text(self, text: str) -> str:
        """Return JSON text, such as the annotation of ``kubectl apply``, with its fields redacted."""
        if text.lstrip()[:1] not in ("{", "["):
            return text
        try:
            document: JSON = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return text
        redacted = self._redact(document)
        return text if redacted == document else msgspec.json.encode(redacted).decode()

    def _redact_operation(self, operation: JSON) -> JSON:
        if not isinstance(operation, dict) or operation.get("value") is None:
            return operation
        try:
            tokens = tuple(parse(operation["path"]))
        except (KeyError, TypeError, ValueError):
            tokens = ()
        value = operation["value"]
        for field in self._paths:
            # The path of an operation does not show the kind of the changed object, so fields of all kinds count.
            for start in range(len(tokens) + 1):
                value = _replace_below(tokens[start:], value, field.tokens, self._hash_leaves)
        if not self._names.isdisjoint(tokens):
            value = self._hash_leaves(value)
        return {**operation, "value": self._redact(value)}

    def _hash_leaves(self, value: JSON) -> JSON:
        """Return a value with a hash in place of each text, number and boolean."""
        if isinstance(value, dict):
            return {name: self._hash_leaves(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._hash_leaves(element) for element in value]
        if value is None or (isinstance(value, str) and value.startswith(PREFIX)):
            return value
        text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else msgspec.json.encode(value)
        return PREFIX + hmac.new(self._key, text, hashlib.sha256).hexdigest()[:_DIGITS]


_KEY_BYTES: Final = 32


def make_redactor(redact: list[str]) -> Redactor:
    """Return a redactor with a new random key.

    Args:
        redact: The fields to hash, as `parse_field` reads them.

    Raises:
        RecordSettingError: A text names no field.
    """
    try:
        fields = [parse_field(text) for text in redact]
    except ValueError as error:
        raise RecordSettingError(f"record_redact: {error}") from error
    return Redactor(secrets.token_bytes(_KEY_BYTES), fields)


def _replace_at(value: JSON, tokens: Sequence[str], replace: Callable[[JSON], JSON]) -> JSON:
    """Return a value in which ``replace`` has replaced all values at a path."""
    if not tokens:
        return replace(value)
    token, rest = tokens[0], tokens[1:]
    if isinstance(value, dict):
        return {
            name: _replace_at(member, rest, replace) if token in (_ANY, name) else member
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [
            _replace_at(element, rest, replace) if token in (_ANY, str(index)) else element
            for index, element in enumerate(value)
        ]
    return value


def _replace_below(place: Sequence[str], value: JSON, path: Sequence[str], replace: Callable[[JSON], JSON]) -> JSON:
    """Return a value, which is at a place of an object, in which the values at a path of the object are replaced."""
    common = min(len(place), len(path))
    if any(ours not in (_ANY, theirs) for ours, theirs in zip(path, place, strict=False)):
        return value
    return _replace_at(value, path[common:], replace)


def _is_about_secret(review: JSON) -> bool:
    """Return whether the object under review is a Secret, even if its members name another kind."""
    request = as_object(as_object(review).get("request"))
    return any(as_object(request.get(name)).get("kind") in _KINDS for name in ("kind", "requestKind"))


def _has_secret(value: JSON) -> bool:
    """Return whether a value has a manifest of a Secret at any place, also in a text or a patch."""
    if isinstance(value, str):
        return ("Secret" in value or "\\u" in value) and _is_manifest(value)
    if isinstance(value, _Patch):
        return any(map(_makes_secret, value)) or _has_secret(list(value))
    if isinstance(value, list):
        return any(map(_has_secret, value))
    if not isinstance(value, dict):
        return False
    is_secret = value.get("kind") in _KINDS and not _MANIFEST_MEMBERS.isdisjoint(value)
    return is_secret or any(map(_has_secret, value)) or any(map(_has_secret, value.values()))


def _is_manifest(text: str) -> bool:
    if text.lstrip()[:1] in ("{", "[", '"'):
        try:
            return _has_secret(msgspec.json.decode(text))
        except (ValueError, RecursionError):
            return True
    return _MANIFEST.search(text) is not None


def _makes_secret(operation: JSON) -> bool:
    """Return whether an operation turns an object into a Secret, whose members other operations may add."""
    members = as_object(operation)
    value = members.get("value")
    return _has_kind(value) or (value in _KINDS and str(members.get("path")).endswith("/kind"))


def _has_kind(value: JSON) -> bool:
    if isinstance(value, list):
        return any(map(_has_kind, value))
    return isinstance(value, dict) and (value.get("kind") in _KINDS or any(map(_has_kind, value.values())))


class _Patch(list[JSON]):
    """The operations of a patch that is base64 text in the record."""


_PATCH: Final = re.compile(rb'"patch":\s*"([A-Za-z0-9+/=]+)"')


def _open_text(text: bytes) -> bytes:
    """Return JSON text followed by the text of its base64 patches."""
    if b'"patch"' not in text:
        return text
    return b"\n".join([text, *map(_decode_base64, _PATCH.findall(text))])


def _decode_base64(text: bytes | str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _decode_body(raw: msgspec.Raw) -> JSON:
    """Return the value of a body; the text of a body that is no JSON. Raises ValueError."""
    body = unwrap_body(raw)
    if body != bytes(raw):
        text = body.decode(errors="replace")
        # A text in UTF-16 has a zero beside each letter.
        if "ecret" in text or "\0" in text or "\\u" in text:
            raise ValueError("a body that is no JSON may contain a Secret")
        return text
    document: JSON = msgspec.json.decode(body)
    return document


def _open_patches(value: JSON, depth: int = 0) -> JSON:
    """Return a copy in which base64 patches are replaced by their operations; raises RecursionError."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, list):
        return [_open_patches(element, depth + 1) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _open_patch(member, depth) if name == "patch" else _open_patches(member, depth + 1)
        for name, member in value.items()
    }


def _open_patch(value: JSON, depth: int) -> JSON:
    if not isinstance(value, str):
        return _open_patches(value, depth + 1)
    try:
        operations: JSON = msgspec.json.decode(_decode_base64(value))
    except (ValueError, RecursionError):
        return value
    return _Patch(operations) if isinstance(operations, list) else value


def _close_patches(value: JSON) -> JSON:
    """Return a copy in which the operations of patches are base64 text again."""
    if isinstance(value, _Patch):
        return base64.b64encode(msgspec.json.encode(list(value))).decode()
    if isinstance(value, list):
        return [_close_patches(element) for element in value]
    if isinstance(value, dict):
        closed: JSONObject = {name: _close_patches(member) for name, member in value.items()}
        return closed
    return value
