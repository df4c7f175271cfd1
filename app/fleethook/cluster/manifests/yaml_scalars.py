"""Types of YAML scalars, as kubectl finds them: go.yaml.in/yaml/v2 v2.4.3 resolve.go, sigs.k8s.io/yaml v1.6.0.

These are the rules of YAML 1.1 with some of 1.2: ``y`` and ``N`` are booleans, ``0o17`` and ``017`` are octal.
A date is text.
"""

import base64
import binascii
import math
import re
import struct
from typing import Any, Final, TypeVar

from fleethook.cluster.manifests.json_stream import make_number

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
_MAX_INT64: Final = 2**63
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
