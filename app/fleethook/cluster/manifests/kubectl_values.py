"""The values of scalars in YAML, and of a text of JSON values one after the other, as kubectl reads them; writes YAML.

Upstream: go.yaml.in/yaml/v2 v2.4.3 resolve.go, sigs.k8s.io/yaml v1.6.0. These are the rules of YAML 1.1 with some of
1.2: ``y`` and ``N`` are booleans, ``0o17`` and ``017`` are octal. A date is text.
"""

import base64
import binascii
import json
import math
import re
import struct
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import yaml

from fleethook.model.formats.text import is_inert
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
    object_pairs_hook=_make_object,
    parse_float=_read_json_float,
    parse_int=_read_json_integer,
    parse_constant=_refuse_constant,
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


_Dumper = TypeVar("_Dumper", bound=Any)
_Scalar = str | int | float | bool | None
PLAIN: Final = ""
"""The tag of a scalar without quotation marks and without an explicit tag."""
_YAML: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, _Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FIRST_OF_NUMBERS: Final = frozenset("+-0123456789")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[oO]?([0-7]+)|0[xX]([0-9a-fA-F]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FRACTION: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_BASES: Final = {2: 2, 3: 8, 4: 16, 5: 10}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}.*)?")

_MAX_UINT64: Final = 2**64
# Integers with more digits are beyond 64 bits in each base; Python's conversion takes quadratic time.
_MAX_DIGITS: Final = 80


def read_scalar(tag: str, text: str) -> _Scalar:
    """Return the JSON value of a scalar; raises ValueError if it has none."""
    if tag == f"{_YAML}str":
        return text
    value = _resolve(text) if tag == PLAIN else _resolve_tagged(tag, text)
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number that JSON has")
    return make_number(value)


def read_key(tag: str, text: str) -> str:
    """Return the key of a JSON object for a scalar; raises ValueError if kubectl takes no such key."""
    if tag == f"{_YAML}str":
        return text
    value = _resolve(text) if tag == PLAIN else _resolve_tagged(tag, text)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _format_float32(value)
    if value is None or value >= _MAX_INT64:
        raise ValueError(f"kubectl takes no key {text!r}: put it into quotation marks")
    return str(value)


def _resolve(text: str) -> _Scalar:
    """Return the value of a plain scalar; an integer may be beyond 64 bits."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _FIRST_OF_NUMBERS:
        return _read_number(text.replace("_", ""), text)
    if _FRACTION.fullmatch(text):
        return _read_float(text.replace("_", ""), text)
    return text


def _read_number(plain: str, text: str) -> _Scalar:
    found = _INTEGER.fullmatch(plain)
    if found is not None and found.lastindex is not None and len(plain) <= _MAX_DIGITS:
        value = int(found[found.lastindex], _BASES[found.lastindex])
        value = -value if found[1] == "-" else value
        if -_MAX_INT64 <= value < (_MAX_INT64 if found[1] else _MAX_UINT64):
            return value
    return _read_float(plain, text) if _FLOAT.fullmatch(plain) else text


def _read_float(plain: str, text: str) -> str | float:
    value = float(plain)
    return value if math.isfinite(value) else text


def _resolve_tagged(tag: str, text: str) -> _Scalar:
    kind = tag.removeprefix(_YAML)
    if kind == "binary":
        try:
            return base64.b64decode(text, validate=True).decode(errors="replace")
        except binascii.Error:
            raise ValueError("!!binary value contains invalid base64 data") from None
    if kind not in _KINDS or kind == tag:
        # kubectl ignores all other tags.
        return text
    if kind == "timestamp":
        is_right, value = bool(_DATE.fullmatch(text)), text
    else:
        value = _resolve(text)  # type: ignore[assignment]
        is_right = type(value) in _KINDS[kind]
    if not is_right:
        raise ValueError(f"{text!r} is no !!{kind}")
    return value


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),), "timestamp": ()
}  # fmt: skip


class _OtherType:
    """A pattern of PyYAML's resolvers for texts that kubectl takes for a number, a boolean or null."""

    def match(self, text: str) -> bool:
        """Return whether a plain scalar is no text."""
        return not isinstance(_resolve(text), str)


def quote_texts(dumper: _Dumper) -> _Dumper:
    """Make a dumper quote texts such as ``y`` and ``1e1``, which PyYAML and kubectl read differently."""
    dumper.add_implicit_resolver(f"{_YAML}other", _OtherType(), None)
    return dumper


def _format_float32(value: float) -> str:
    """Return a number as Go's ``strconv.FormatFloat(value, 'g', -1, 32)`` does, in which kubectl writes keys."""
    if not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    digits = next(
        text for precision in range(17) if struct.pack("<f", float(text := f"{value:.{precision}e}")) == single
    )
    mantissa, _, exponent = digits.partition("e")
    # Go decides so for the shortest form.
    if -4 <= int(exponent) < 6:
        return f"{float(digits):.{max(len(mantissa.partition('.')[2]) - int(exponent), 0)}f}"
    return f"{mantissa}e{exponent}"


@quote_texts
class _TextDumper(yaml.CSafeDumper):
    """Writes YAML that kubectl reads as the same values."""


class NoAliasDumper(_TextDumper):
    """Writes YAML without anchors, because users edit the output."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that a shared value is written at each place."""
        del data
        return True


def yaml_text(value: JSON, *, dumper: type[yaml.CSafeDumper] = _TextDumper, width: int = 80) -> str:
    """Return a value as YAML. If it has terminal control characters, all characters beyond ASCII are escaped."""
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=width)
    if not is_inert(text.replace("\n", "")):
        text = yaml.dump(value, Dumper=dumper, sort_keys=False, width=width)
    return text
