"""Decode a text of JSON values one after the other, such as JSON lines, as kubectl does."""

import json
import math
import re
from typing import Final, NamedTuple, NoReturn

from fleethook.model.json import JSON, JSONObject

_SPACE: Final = re.compile(r"[ \t\r\n]*")
SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""An escape for half of a surrogate pair."""
_MAX_INT64: Final = 2**63


class Part(NamedTuple):
    """One value of a stream.

    Attributes:
        value: The value, None for null and for a value that has an object with duplicate keys.
        start: Its first character in the text.
        end: The character after it.
        has_duplicates: Whether an object in it has a key twice.
    """

    value: JSON
    start: int
    end: int
    has_duplicates: bool = False


class Stream(NamedTuple):
    """The values of a text.

    Attributes:
        parts: The values before the first error.
        position: The character at which the error is.
        error: The reason why the rest cannot be read, ``""`` if all of it was read.
        is_json: Whether the text is JSON for kubectl: all of it, or at least its first two values.
    """

    parts: list[Part]
    position: int = 0
    error: str = ""
    is_json: bool = True


def scan_json(text: str) -> Stream:
    """Return the JSON values in ``text``."""
    found: list[Part] = []
    end = 0
    while (start := _skip_space(text, end)) < len(text):
        try:
            value, end = _decode(text, start)
        except _DuplicateKeyError:
            end = _decode_any(text, start)[1]
            found.append(Part(None, start, end, has_duplicates=True))
            continue
        except json.JSONDecodeError as error:
            # kubectl reads the rest of a text with fewer values as YAML: apimachinery v0.36, util/yaml/decoder.go.
            return Stream(found, error.pos, f"{error.msg[0].lower()}{error.msg[1:]}", is_json=len(found) > 1)
        except RecursionError:
            return Stream(found, start, "is nested too deep")
        except ValueError as error:
            return Stream(found, start, str(error))
        found.append(Part(_replace_surrogates(value) if SURROGATE.search(text, start, end) else value, start, end))
    return Stream(found)


class _DuplicateKeyError(ValueError):
    """A JSON object has a key twice."""


def _make_object(members: list[tuple[str, JSON]]) -> JSONObject:
    found = dict(members)
    if len(found) < len(members):
        raise _DuplicateKeyError
    return found


def make_number(value: float) -> int | float:
    """Return a number as kubectl sends it: integers beyond 64 bits are floats, and ``1.0`` is the integer 1."""
    if isinstance(value, int):
        return value if -_MAX_INT64 <= value < _MAX_INT64 else float(value)
    return int(value) if -_MAX_INT64 < value < _MAX_INT64 and value.is_integer() else value


def _read_json_integer(text: str) -> int | float:
    try:
        return make_number(int(text))
    except (ValueError, OverflowError):
        raise ValueError("an integer is too large") from None


def _read_json_float(text: str) -> int | float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large a number")
    return make_number(value)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text!r} is not a number that JSON has")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_make_object, parse_float=_read_json_float, parse_int=_read_json_integer, parse_constant=_refuse_constant
).raw_decode
_decode_any: Final = json.JSONDecoder(parse_int=str).raw_decode


def _skip_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def _replace_surrogates(value: JSON) -> JSON:
    """Return a value with U+FFFD in place of each half of a surrogate pair, as Go's encoding/json reads it."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(one) for one in value]
    if isinstance(value, dict):
        return {str(_replace_surrogates(name)): _replace_surrogates(one) for name, one in value.items()}
    return value
