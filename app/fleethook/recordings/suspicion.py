"""Finds the records that may have values to redact, such as the fields of ``record_redact``, without decoding them.

A decode holds the interpreter lock, so every review would wait for it. The search runs in the C library, outside the
lock, over many records at once. It may report a record that has nothing to redact, but never misses one:

- The kind of a Secret is the text ``Secret``, in JSON and in YAML. A word such as ``imagePullSecrets`` is no kind.
- JSON can escape each letter of the kind, so any escape of an ASCII character counts.
- A patch is base64 text, in which a text has three forms.
"""

import base64
import ctypes
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.model.json import JSON
from fleethook.patch.pointer import parse

_NAME: Final = re.compile(r"[^/:*\s]+")
ANY: Final = "*"


class Field(NamedTuple):
    """A field of objects.

    Attributes:
        kind: The kind of the objects, ``""`` for all kinds.
        tokens: The path in the object; ``*`` stands for any member or element. A single name without path, for members
            of that name anywhere, has ``kind`` ``*``.
    """

    kind: str
    tokens: tuple[str, ...]

    @property
    def is_name(self) -> bool:
        """Whether the field is every member of a name."""
        return self.kind == ANY

    @property
    def needle(self) -> str:
        """A name that occurs in every review with the field."""
        return next(token for token in reversed(self.tokens) if token not in ("", ANY))


def parse_field(text: str) -> Field:
    """Return the field that a text names.

    Args:
        text: ``name`` for each member of that name, or ``/path/to/*/field`` in each object, or
            ``Kind:/path/to/*/field`` in each object of a kind.

    Raises:
        ValueError: The text names no field.
    """
    if _NAME.fullmatch(text):
        return Field(ANY, (text,))
    kind, _, path = ("", "", text) if text.startswith("/") else text.partition(":")
    tokens = tuple(parse(path)) if path.startswith("/") else ()
    has_kind = path == text or _NAME.fullmatch(kind) is not None
    if not has_kind or not any(token not in ("", ANY) for token in tokens):
        raise ValueError(f"{text!r} names no field: write a name, /path/to/*/field or Kind:/path/to/*/field")
    return Field(kind, tokens)


def replace_at(value: JSON, tokens: tuple[str, ...], replace: Callable[[JSON], JSON]) -> JSON:
    """Return a value in which ``replace`` has replaced all values at a path."""
    if not tokens:
        return replace(value)
    token, rest = tokens[0], tokens[1:]
    if isinstance(value, dict):
        return {
            name: replace_at(member, rest, replace) if token in (ANY, name) else member
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [
            replace_at(element, rest, replace) if token in (ANY, str(index)) else element
            for index, element in enumerate(value)
        ]
    return value


def nest(tokens: tuple[str, ...], value: JSON) -> JSON:
    """Return an object that has a value at a path."""
    for token in reversed(tokens):
        value = {token: value}
    return value


def unnest(tokens: tuple[str, ...], value: JSON) -> JSON:
    """Return the value at a path; if a hash replaced a part of the path, return the hash."""
    for token in tokens:
        if not isinstance(value, dict):
            break
        value = value[token]
    return value


# An escape of an ASCII character is suspicious, except for &, < and >, which Go escapes and which begin no name.
_ESCAPE: Final = b"\\u00"
_SUSPICIOUS_ESCAPE: Final = re.compile(rb"\\u00(?!26|3[cCeE])[2-7]")
_SECRET: Final = b"Secret"
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
# JSON's escapes of whitespace, which end in a letter.
_WHITESPACE: Final = (b"\\t", b"\\n", b"\\r")


# ctypes releases the interpreter lock while a function of a CDLL runs; `bytes.find` holds it.
_memmem: Final = ctypes.CDLL(None).memmem
_memmem.restype = ctypes.c_void_p
_memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)


def find_bytes(text: bytes, needle: bytes, start: int) -> int:
    """Return the first place of a needle from ``start``, -1 if there is none."""
    first = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value
    if first is None or start > len(text):
        return -1
    found: int | None = _memmem(first + start, len(text) - start, needle, len(needle))
    return -1 if found is None else found - first


class Suspicion:
    """Decides which records have to be decoded."""

    def __init__(self, fields: Sequence[Field] = ()) -> None:
        """Initialize; ``fields`` have to be redacted beside Secrets."""
        names = [field.needle.encode() for field in fields]
        # The name of a field is the name of a member, or a part of the path of an operation.
        self._needles: Final = tuple(names)
        hidden = (_SECRET, *names)
        self._encoded: Final = tuple(form for needle in hidden for form in encode_forms(needle))
        self._encoded_escapes: Final = encode_forms(_ESCAPE)

    def find_records(self, text: bytes, starts: Sequence[int]) -> set[int]:
        """Return the numbers of the records that have to be decoded.

        Args:
            text: The records, one after the other.
            starts: The places where they start, ascending.
        """
        found = {number for needle in self._needles for number in self._find_numbers(text, starts, needle)}
        found.update(self._find_secrets(text, starts))
        for number in self._find_numbers(text, starts, _ESCAPE):
            end = starts[number + 1] if number + 1 < len(starts) else len(text)
            if number not in found and _SUSPICIOUS_ESCAPE.search(text, starts[number], end):
                found.add(number)
        return found

    def find_patches(self, text: bytes, starts: Sequence[int]) -> set[int]:
        """Return the numbers of the records whose base64 text may have values to redact; arguments as above."""
        needles = (*self._encoded, *self._encoded_escapes)
        return {number for needle in needles for number in self._find_numbers(text, starts, needle)}

    def _find_secrets(self, text: bytes, starts: Sequence[int]) -> Iterator[int]:
        """Yield the number of each record that may have the kind of a Secret."""
        place = find_bytes(text, _SECRET, 0)
        while place >= 0:
            start = place + len(_SECRET)
            if not place or text[place - 1] not in _LETTERS or text[place - 2 : place] in _WHITESPACE:
                number = bisect_right(starts, place) - 1
                yield number
                if number + 1 >= len(starts):
                    return
                start = starts[number + 1]
            place = find_bytes(text, _SECRET, start)

    def _find_numbers(self, text: bytes, starts: Sequence[int], needle: bytes) -> Iterator[int]:
        """Yield the number of each record that has a needle."""
        place = find_bytes(text, needle, 0)
        while place >= 0:
            number = bisect_right(starts, place) - 1
            yield number
            if number + 1 >= len(starts):
                return
            place = find_bytes(text, needle, starts[number + 1])


def encode_forms(needle: bytes) -> tuple[bytes, ...]:
    """Return the characters of base64 that a text surely has if its content has a needle: one form for each offset."""
    forms = []
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + needle)
        # Characters that also depend on neighbours of the needle are cut off.
        start = (offset * 8 + 5) // 6
        end = (offset + len(needle)) * 8 // 6
        forms.append(encoded[start:end])
    return tuple(forms)
