"""Replaces the values of Secrets, and of fields that a setting names, in a record by hashes.

An object counts as a Secret if its kind says so, wherever it is: in a review, in a List or a Work, in JSON text such as
an annotation, and in a patch. Quotations of its values elsewhere in the record are replaced as well.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch.pointer import parse
from fleethook.recordings.quoted_values import Hasher, QuotedValues, list_public_texts
from fleethook.recordings.suspicion import Field, nest, replace_at, unnest

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


_KIND: Final = "Secret"
_LIST_KIND: Final = "SecretList"
_KINDS: Final = (_KIND, _LIST_KIND)
_RESOURCE: Final = "secrets"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OBJECTS: Final = ("object", "oldObject", "observedObject")
# A manifest in a text that is no JSON: YAML in a ConfigMap, or JSON in a message.
_MANIFEST: Final = re.compile(r"""kind["'\\\s]*:["'\\\s]*Secret(List)?\b""")


class RedactionError(Exception):
    """A record cannot be redacted reliably."""


class RecordValues(NamedTuple):
    """The parts of a record that may have secrets."""

    review: JSON
    answer: JSON
    calls: JSON


class Redactor:
    """Redacts records."""

    def __init__(self, hasher: Hasher, fields: Sequence[Field] = ()) -> None:
        """Initialize the redactor.

        Args:
            hasher: Hashes values.
            fields: Further fields to redact.
        """
        self._hasher: Final = hasher
        self._fields: Final = tuple(fields)

    def redact(self, values: RecordValues) -> RecordValues | None:
        """Return redacted copies, None if nothing had to be replaced.

        Raises:
            RedactionError: The record is nested too deep.
            WorkLimitError: The record has too many values to look for quotations of all of them.
        """
        try:
            return self._redact(values)
        except RecursionError:
            raise RedactionError("nested too deep") from None

    def _redact(self, values: RecordValues) -> RecordValues | None:
        request = as_object(as_object(values.review).get("request"))
        opened = [open_patches(value) for value in values]
        quoted = QuotedValues(self._hasher)
        quoted.except_for(list_public_texts(request))
        is_secret = _is_secret_request(request)
        walk = _Walk(quoted, self._fields, makes_secrets=is_secret or any(map(_names_secret, opened)))
        if is_secret or any(map(_makes_secret, opened)):
            walk.redact_roots(opened[0])
        redacted = [walk.redact(value) for value in opened]
        if not quoted:
            return None
        redacted = quoted.replace_in(redacted)
        return RecordValues(*(close_patches(value) for value in redacted))


def _names_secret(value: JSON) -> bool:
    """Return whether the kind of a Secret is anywhere in a value."""
    if isinstance(value, str):
        return value in _KINDS
    if isinstance(value, list):
        return any(map(_names_secret, value))
    return isinstance(value, dict) and any(map(_names_secret, value.values()))


def _makes_secret(value: JSON) -> bool:
    """Return whether a patch in a value turns an object into a Secret, because it sets the kind."""
    if isinstance(value, Patch):
        return any(isinstance(one, dict) and one.get("value") in _KINDS for one in value)
    if isinstance(value, list):
        return any(map(_makes_secret, value))
    return isinstance(value, dict) and any(map(_makes_secret, value.values()))


def _is_secret_request(request: Mapping[str, JSON]) -> bool:
    kinds = (as_object(request.get(name)).get("kind") for name in ("kind", "requestKind"))
    resources = (as_object(request.get(name)).get("resource") for name in ("resource", "requestResource"))
    return any(kind in _KINDS for kind in kinds) or _RESOURCE in resources


class _Walk:
    """Redacts the values of one record."""

    def __init__(self, quoted: QuotedValues, fields: Sequence[Field], *, makes_secrets: bool) -> None:
        """Initialize the walk.

        Args:
            quoted: Takes the values that are replaced.
            fields: Further fields to redact.
            makes_secrets: Whether patches may concern Secrets.
        """
        self._quoted: Final = quoted
        self._names: Final = frozenset(field.tokens[0] for field in fields if field.is_name)
        self._paths: Final = [field for field in fields if not field.is_name]
        self._makes_secrets: Final = makes_secrets

    def redact_roots(self, review: JSON) -> None:
        """Redact the objects under review as Secrets, even if their members name another kind."""
        request = review.get("request") if isinstance(review, dict) else None
        for name in _OBJECTS:
            if isinstance(request, dict) and request.get(name) is not None:
                request[name] = self._redact_nested_secrets(request[name])

    def redact(self, value: JSON) -> JSON:
        """Return a redacted copy of a value."""
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, Patch):
            return Patch(self._redact_operation(operation) for operation in value)
        if isinstance(value, list):
            return [self.redact(element) for element in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("kind")
        if kind == _KIND:
            value = self._redact_secret(value)
        elif kind == _LIST_KIND and isinstance(value.get("items"), list):
            items = [self._redact_secret(item) if isinstance(item, dict) else item for item in value["items"]]
            value = {**value, "items": items}
        value = self._redact_paths(value, kind)
        return {name: self._redact_member(name, member) for name, member in value.items()}

    def _redact_member(self, name: str, value: JSON) -> JSON:
        return self._hash_leaves(value) if name in self._names else self.redact(value)

    def _redact_paths(self, document: JSONObject, kind: JSON) -> JSONObject:
        for field in self._paths:
            if kind is not None and field.kind in ("", kind):
                document = replace_at(document, field.tokens, self._hash_leaves)
        return document

    def _redact_secret(self, document: JSONObject) -> JSONObject:
        changed = dict(document)
        for name, is_base64 in (("data", True), ("stringData", False)):
            if changed.get(name) is not None:
                changed[name] = self._redact_data(changed[name], is_base64=is_base64)
        metadata = as_object(changed.get("metadata"))
        annotations = as_object(metadata.get("annotations"))
        if annotations.get(_LAST_APPLIED) is not None:
            applied = self._redact_last_applied(annotations[_LAST_APPLIED])
            changed["metadata"] = {**metadata, "annotations": {**annotations, _LAST_APPLIED: applied}}
        return changed

    def _redact_data(self, data: JSON, *, is_base64: bool) -> JSON:
        if not isinstance(data, dict):
            return self._hash(data)
        hash_one = partial(self._hash_data, is_base64=is_base64)
        return {name: None if value is None else hash_one(value) for name, value in data.items()}

    def _hash_data(self, value: JSON, *, is_base64: bool) -> str:
        return self._quoted.add_base64(value) if is_base64 and isinstance(value, str) else self._hash(value)

    def _redact_last_applied(self, value: JSON) -> JSON:
        document = _parse_json(value) if isinstance(value, str) else None
        if not isinstance(document, dict):
            return self._hash(value)
        return _to_text(self.redact(self._redact_secret(document)))

    def _redact_text(self, text: str) -> str:
        """Return JSON text with its Secrets redacted. Other text that looks like a manifest becomes a hash."""
        if _KIND not in text and "\\u" not in text and not any(name in text for name in self._needles()):
            return text
        if text.lstrip()[:1] in ("{", "[", '"'):
            document = _parse_json(text)
            if document is None:
                return self._hash(text)
            redacted = self.redact(open_patches(document))
            return text if redacted == document else _to_text(close_patches(redacted))
        return self._hash(text) if _MANIFEST.search(text) else text

    def _needles(self) -> list[str]:
        return [*self._names, *(field.needle for field in self._paths)]

    def _redact_operation(self, operation: JSON) -> JSON:
        if not isinstance(operation, dict) or operation.get("value") is None:
            return operation
        try:
            tokens = parse(operation["path"])
        except (KeyError, TypeError, ValueError):
            tokens = ()
        value = operation["value"]
        if self._makes_secrets:
            value = self._redact_in_secret(tokens, value)
        for field in self._paths:
            # The path of an operation does not show the kind of the changed object, so fields of all kinds count.
            for start in range(len(tokens) + 1):
                inner = tokens[start:]
                nested = replace_at(nest(inner, value), field.tokens, self._hash_leaves)
                value = unnest(inner, nested)
        if not self._names.isdisjoint(tokens):
            value = self._hash_leaves(value)
        return {**operation, "value": self.redact(value)}

    def _redact_in_secret(self, tokens: tuple[str, ...], value: JSON) -> JSON:
        """Redact the value of an operation, as if the changed object and all objects in the value were Secrets."""
        for start in range(len(tokens)):
            if tokens[start] in ("data", "stringData", "metadata"):
                inner = tokens[start:]
                value = unnest(inner, self._redact_secret(nest(inner, value)))
                break
        return self._redact_nested_secrets(value)

    def _redact_nested_secrets(self, value: JSON) -> JSON:
        if isinstance(value, list):
            return [self._redact_nested_secrets(element) for element in value]
        if not isinstance(value, dict):
            return value
        redacted = self._redact_secret(value)
        return {
            name: member if name in ("data", "stringData") else self._redact_nested_secrets(member)
            for name, member in redacted.items()
        }

    def _hash_leaves(self, value: JSON) -> JSON:
        """Return a value with a hash in place of each text, number and boolean."""
        if isinstance(value, dict):
            return {name: self._hash_leaves(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._hash_leaves(element) for element in value]
        return None if value is None else self._hash(value)

    def _hash(self, value: JSON) -> str:
        return self._quoted.add_text(value if isinstance(value, str) else _to_text(value))


def _parse_json(text: str) -> JSON:
    """Return the value of JSON text, None for other text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _to_text(value: JSON) -> str:
    return msgspec.json.encode(value).decode()
