"""The values of scalars in YAML as kubectl reads them; writes YAML.

Upstream: go.yaml.in/yaml/v2 v2.4.3 resolve.go, sigs.k8s.io/yaml v1.6.0. These are the rules of YAML 1.1 with some of
1.2: ``y`` and ``N`` are booleans, ``0o17`` and ``017`` are octal. A date is text.
"""

import math
import re
from typing import Any, Final, TypeVar

import yaml

from fleethook.model.formats.text import is_inert
from fleethook.model.json import JSON

_MAX_INT64: Final = 2**63


def make_number(value: float) -> int | float:
    """Return a number as kubectl sends it: integers beyond 64 bits are floats, and ``1.0`` is the integer 1.

    Raises:
        ValueError: JSON has no such number.
    """
    if isinstance(value, int):
        return value if -_MAX_INT64 <= value < _MAX_INT64 else float(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number that JSON has")
    return int(value) if -_MAX_INT64 < value < _MAX_INT64 and value.is_integer() else value


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
_MAX_UINT64: Final = 2**64
# Integers with more digits are beyond 64 bits in each base; Python's conversion takes quadratic time.
_MAX_DIGITS: Final = 80


def read_scalar(tag: str, text: str) -> _Scalar:
    """Return the JSON value of a scalar; raises ValueError if it has none."""
    if tag != PLAIN:
        return _read_tagged(tag, text)
    value = _resolve(text)
    return value if value is None or isinstance(value, (str, bool)) else make_number(value)


def read_key(tag: str, text: str) -> str:
    """Return the key of a JSON object for a scalar; raises ValueError for one that is no text, boolean or integer."""
    value = _resolve(text) if tag == PLAIN else _read_tagged(tag, text)
    if isinstance(value, str):
        return value
    if not isinstance(value, int) or value >= _MAX_INT64:
        raise ValueError(f"the key {text!r} is no text: put it into quotation marks")
    return str(value).lower()


def _read_tagged(tag: str, text: str) -> str:
    """Return a scalar with a tag. kubectl ignores tags that YAML does not define."""
    if tag.startswith(_YAML) and tag != f"{_YAML}str":
        raise ValueError(f"the tag !!{tag.removeprefix(_YAML)} is not supported: write the value without it")
    return text


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


class _OtherType:
    """A pattern of PyYAML's resolvers for texts that kubectl takes for a number, a boolean or null."""

    def match(self, text: str) -> bool:
        """Return whether a plain scalar is no text."""
        return not isinstance(_resolve(text), str)


def quote_texts(dumper: _Dumper) -> _Dumper:
    """Make a dumper quote texts such as ``y`` and ``1e1``, which PyYAML and kubectl read differently."""
    dumper.add_implicit_resolver(f"{_YAML}other", _OtherType(), None)
    return dumper


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
