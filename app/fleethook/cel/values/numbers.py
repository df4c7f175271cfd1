"""Numbers in texts, as Go's package strconv parses and prints them."""

import re
from decimal import Decimal
from math import isinf, isnan
from typing import Final

from fleethook.cel.values.values import MAX_INT, MAX_UINT, MIN_INT, Uint

_INT: Final = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)
_UINT: Final = re.compile(r"[0-9]{1,400}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_NAMED: Final = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
# An underscore separates two digits, or follows the prefix of a hexadecimal number.
_BAD_UNDERSCORE: Final = re.compile(r"(?<![0-9])_|_(?![0-9])", re.ASCII)
_BAD_HEX_UNDERSCORE: Final = re.compile(r"(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])", re.ASCII)
# The shortest text of a number has an exponent from here on.
_MIN_EXPONENT: Final = 6


def parse_int(text: str) -> int:
    """Return an integer of 64 bits; raises ValueError."""
    value = int(text) if _INT.fullmatch(text) else MAX_INT + 1
    if not MIN_INT <= value <= MAX_INT:
        raise ValueError("type conversion error from 'string' to 'int'")
    return value


def parse_uint(text: str) -> Uint:
    """Return an unsigned integer of 64 bits; raises ValueError."""
    value = int(text) if _UINT.fullmatch(text) else MAX_UINT + 1
    if value > MAX_UINT:
        raise ValueError("type conversion error from 'string' to 'uint'")
    return Uint(value)


def parse_float(text: str) -> float:
    """Return a double; raises ValueError, also for a number out of range."""
    named = _NAMED.get(text.lower()) if len(text) <= 9 else None
    if named is not None:
        return named
    if "_" in text:
        bad = _BAD_HEX_UNDERSCORE if text.lower().lstrip("+-").startswith("0x") else _BAD_UNDERSCORE
        text = "" if bad.search(text) else text.replace("_", "")
    value = float("inf")
    if _FLOAT.fullmatch(text):
        value = float(text)
    elif _HEX_FLOAT.fullmatch(text):
        try:
            value = float.fromhex(text)
        except OverflowError:
            value = float("inf")
    if isinf(value):
        raise ValueError("type conversion error from 'string' to 'double'")
    return value


def parse_bool(text: str) -> bool:
    """Return a bool; raises ValueError."""
    if text not in _BOOLS:
        raise ValueError("type conversion error from 'string' to 'bool'")
    return _BOOLS[text]


def format_float(value: float) -> str:
    """Return the shortest text that has the value (Go: FormatFloat with 'g' and -1)."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = len(text) + int(exponent) - 1 if value else 0
    prefix = "-" if sign else ""
    if -4 <= power < _MIN_EXPONENT:
        return prefix + format_plain(abs(value))
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{prefix}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def format_plain(value: float) -> str:
    """Return the shortest text without an exponent (Go: FormatFloat with 'f' and -1)."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
