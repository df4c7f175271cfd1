"""Finds quotations of redacted values in the rest of a record, for example in the message of a webhook.

A quotation gets the hash that replaces the value itself. So a replay of the redacted review quotes the same hash.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

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

    def hash_bytes(self, value: bytes) -> str:
        """Return the hash that replaces bytes."""
        return PREFIX + hmac.new(self._key, value, hashlib.sha256).hexdigest()[:_DIGITS]


def decode_base64(text: str) -> bytes:
    """Return the bytes of base64 text; the text itself if it is no base64."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "surrogatepass")


MAX_WORK: Final = 400_000_000
"""The maximum product of the number of quoted forms and the characters of a record. Such a search takes 0.4 s."""
# A word of a message may be equal to a short value by chance. So a quotation of less than 8 characters must be a
# separate word, and one of less than 4 characters must be in quotation marks.
_LONG: Final = 8
_WORD: Final = 4
_QUOTES: Final = "[\"'`]"
_MAX_LINES: Final = 200
# Words of the review format. They are in every record, so they reveal nothing, and readers need them.
_PROTOCOL: Final = frozenset(
    re.findall(
        r"\S+",
        """
        apiVersion kind metadata name namespace labels annotations spec status data stringData type immutable
        uid request response object oldObject observedObject operation options userInfo username groups extra
        dryRun resource subResource requestKind requestResource requestSubResource group version generateName
        generation resourceVersion creationTimestamp managedFields allowed patch patchType warnings
        auditAnnotations message reason details causes field code successful healthy replicas op path value
        from add remove replace move copy test JSONPatch Failure Success Invalid Forbidden BadRequest Opaque
        Secret SecretList List v1 CREATE UPDATE DELETE CONNECT true false null items manifests workload hmac
        sha256 hmac-sha256
        """,
    )
)


class WorkLimitError(Exception):
    """A record has too many values to be searched for all of them."""


class QuotedValues:
    """The values of one record that were replaced, in each form in which a message may quote them."""

    def __init__(self, hasher: Hasher) -> None:
        """Initialize an empty collection."""
        self._hasher: Final = hasher
        self._forms: Final[dict[str, str]] = {}
        self._hashes: Final[set[str]] = set()
        self._public: Final[set[str]] = set(_PROTOCOL)

    def __bool__(self) -> bool:
        """Return whether a value was replaced."""
        return bool(self._hashes)

    def except_for(self, texts: Iterator[str]) -> None:
        """Do not replace texts that a record shows anyway, such as its namespace: Secrets often repeat it."""
        self._public.update(texts)

    def add_text(self, text: str) -> str:
        """Add a value, and return its hash. Return a hash of this collection unchanged."""
        if text in self._hashes:
            return text
        token = self._hasher.hash_text(text)
        self._add_forms(text, token)
        self._add_encoded(text.encode("utf-8", "surrogatepass"), token)
        return token

    def add_base64(self, text: str) -> str:
        """Add a value in base64, and return the hash in base64. Return a hash of this collection unchanged."""
        if text in self._hashes:
            return text
        encoded, content = self._hasher.hash_base64(text), decode_base64(text)
        token = base64.b64decode(encoded).decode()
        self._forms[text] = encoded
        self._add_encoded(content, token)
        self._add_forms(content.decode("utf-8", "ignore"), token)
        return encoded

    def _add_encoded(self, content: bytes, token: str) -> None:
        encoded = base64.b64encode(token.encode()).decode()
        self._hashes.update((token, encoded))
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            self._forms[encode(content).decode()] = encoded

    def _add_forms(self, text: str, token: str) -> None:
        stripped = text.strip()
        lines = stripped.splitlines()[:_MAX_LINES]
        long_lines = (line.strip() for line in lines if len(line.strip()) >= _LONG) if len(lines) > 1 else ()
        for form in (text, stripped, *long_lines):
            if form:
                self._forms[form] = token
                # Messages quote values as JSON encoders, Go's %q and Python's repr do.
                for quote in (lambda text: json.dumps(text, ensure_ascii=False), json.dumps, ascii, repr):
                    self._forms[quote(form)[1:-1]] = token

    def replace_in(self, values: list[JSON]) -> list[JSON]:
        """Return JSON values in which hashes replace all quotations.

        Raises:
            WorkLimitError: There are too many values for the size of the JSON values.
        """
        forms = {form: token for form, token in self._forms.items() if form and form not in self._public}
        texts = [text for value in values for text in _iterate_texts(value)]
        joined = "\n".join(texts)
        if len(forms) * len(joined) > MAX_WORK:
            raise WorkLimitError
        # The search may find a form with a newline across two texts. The pattern below then matches nothing.
        present = {form: token for form, token in forms.items() if form in joined}
        if not present:
            return values
        pattern = re.compile("|".join(map(_to_pattern, sorted(present, key=len, reverse=True))))

        def replace(text: str) -> str:
            if text in self._public:
                return text
            whole = present.get(text)
            return whole if whole is not None else pattern.sub(lambda found: present[found.group()], text)

        return [_map_texts(value, replace) for value in values]


def _to_pattern(form: str) -> str:
    escaped = re.escape(form)
    if len(form) >= _LONG:
        return escaped
    if len(form) >= _WORD:
        return rf"(?<!\w){escaped}(?!\w)"
    return f"(?<={_QUOTES}){escaped}(?={_QUOTES})"


def _iterate_texts(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _iterate_texts(member)
    elif isinstance(value, list):
        for element in value:
            yield from _iterate_texts(element)


def _map_texts(value: JSON, change: Callable[[str], str]) -> JSON:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _map_texts(member, change) for name, member in value.items()}
    if isinstance(value, list):
        # A patch is a list of its own type.
        return type(value)(_map_texts(element, change) for element in value)
    return value


def list_public_texts(request: Mapping[str, JSON]) -> Iterator[str]:
    """Yield texts of a request that a record shows in any case: names, and the caller."""
    for name in ("uid", "name", "namespace", "operation"):
        yield from _iterate_texts(request.get(name))
    for name in ("kind", "resource", "requestKind", "requestResource"):
        member = request.get(name)
        if isinstance(member, dict):
            yield from (text for text in member.values() if isinstance(text, str))
    user = request.get("userInfo")
    if isinstance(user, dict):
        yield from _iterate_texts([user.get("username"), user.get("groups")])
    for name in ("object", "oldObject"):
        document = request.get(name)
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if isinstance(metadata, dict):
            yield from _iterate_texts([metadata.get(one) for one in ("name", "namespace", "uid", "resourceVersion")])
