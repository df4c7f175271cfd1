"""The text that kube-apiserver stores for a resource quantity.

Unlike `Quantity`, which computes, this module reproduces the text of k8s.io/apimachinery/pkg/api/resource v0.36.
Upstream keeps a text that its parser considers canonical, such as ``+5``, ``1.500`` or ``1E3``, and formats all others.
tests/e2e/test_workload_rules.py compares the result with the Go code.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from fleethook.model.formats.quantity import MAX_QUANTITY_LENGTH, not_a_quantity

_QUANTITY: Final = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,3})", re.ASCII)

_NANO: Final = -9
_MILLI: Final = -3
_MAX_INT64: Final = 2**63 - 1
_MAX_DIGITS: Final = 18
"""Decimal digits that always fit into an int64, for which upstream has a fast path."""
_CACHED_TEXTS: Final = 4096


class _Parsed(NamedTuple):
    number: Fraction
    format: str
    """``""``, ``e`` or ``i``: decimal suffixes, decimal exponents, binary suffixes."""
    scale: int
    """The power of ten of the last digit in upstream's int64 form; below `_NANO` without such a form."""
    text: str
    """The parsed text if upstream reuses it, else empty."""


@lru_cache(_CACHED_TEXTS)
def stored_quantity(text: str) -> str:
    """Return the stored form of a single quantity, such as ``emptyDir.sizeLimit``.

    Raises:
        ValueError: ``text`` is no quantity.
    """
    return _format(_parse(_format(_parse(text.strip()))))


@lru_cache(_CACHED_TEXTS)
def stored_resource(text: str) -> str:
    """Return the stored form of a quantity in ``requests`` or ``limits``: rounded up to thousandths by defaulting.

    Raises:
        ValueError: ``text`` is no quantity.
    """
    parsed = _parse(text.strip())
    if parsed.scale < _MILLI:
        parsed = _Parsed(_round_away(parsed.number, _MILLI), parsed.format, _MILLI, "")
    return _format(_parse(_format(parsed)))


def _parse(text: str) -> _Parsed:
    match = _QUANTITY.fullmatch(text) if 0 < len(text) <= MAX_QUANTITY_LENGTH else None
    if match is None:
        raise not_a_quantity(text)
    sign, zeros, digits, decimals, suffix = match.groups(default="")
    exponent, format_ = _interpret(suffix, text)
    number = Fraction(int(f"{digits or 0}{decimals}"), 10 ** len(decimals))
    if sign == "-":
        number = -number
    number *= Fraction(2) ** exponent if format_ == "i" else Fraction(10) ** exponent
    if format_ == "i":
        parsed = _parse_binary(text, number, digits=digits or "0", decimals=decimals, exponent=exponent)
    else:
        scale = exponent - len(decimals)
        parsed = _parse_decimal(text, number, digits=(digits or "0") + decimals, scale=scale, format_=format_)
    if parsed.scale < _NANO and not (zeros or digits or decimals):
        raise not_a_quantity(text)  # only the fast path upstream accepts a suffix without digits
    return parsed


def _interpret(suffix: str, text: str) -> tuple[int, str]:
    """Return the exponent and the format of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], ""
    if suffix in _BINARY:
        return _BINARY[suffix], "i"
    if match := _EXPONENT.fullmatch(suffix):
        return int(match[1]), "e"
    raise not_a_quantity(text)


def _parse_decimal(text: str, number: Fraction, *, digits: str, scale: int, format_: str) -> _Parsed:
    if len(digits) <= _MAX_DIGITS and scale >= _NANO:
        reused = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return _Parsed(number, format_, scale, text if reused else "")
    return _Parsed(_round_away(number, _NANO), format_, _NANO - 1, "")


def _parse_binary(text: str, number: Fraction, *, digits: str, decimals: str, exponent: int) -> _Parsed:
    if not decimals and len(digits) + exponent * 3 // 10 < 15 and abs(number) <= _MAX_INT64:
        reused = int(digits) & 7 != 0
        return _Parsed(number, "i", 0, text if reused else "")
    number = _round_away(number, _NANO)
    # Upstream limits and tests the magnitude, and restores the sign afterwards.
    number = max(-Fraction(_MAX_INT64), min(number, Fraction(_MAX_INT64)))
    return _Parsed(number, "" if 0 < abs(number) < 1 else "i", _NANO - 1, "")


def _round_away(number: Fraction, scale: int) -> Fraction:
    """Return ``number`` rounded away from zero to a multiple of 10^scale; ``scale`` is not positive."""
    parts: int = 10**-scale
    magnitude = -(-abs(number.numerator) * parts // number.denominator)
    return Fraction(-magnitude if number < 0 else magnitude, parts)


def _format(parsed: _Parsed) -> str:
    number = parsed.number
    if parsed.text or not number:
        return parsed.text or "0"
    if parsed.format == "i" and abs(number) >= 1024 and number.denominator == 1:
        mantissa, power = _remove_factors(number.numerator, 1024)
        return f"{mantissa}{_BINARY_SUFFIX.get(power * 10, '')}"
    mantissa, power = _remove_factors(int(number * 10**-_NANO), 10)
    exponent = power + _NANO
    shift = exponent % 3
    mantissa, exponent = mantissa * 10**shift, exponent - shift
    if parsed.format == "e":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    # Upstream writes no suffix if none fits: it stores 1000E as 1.
    return f"{mantissa}{_DECIMAL_SUFFIX.get(exponent, '')}"


def _remove_factors(number: int, base: int) -> tuple[int, int]:
    power = 0
    while number % base == 0:
        number //= base
        power += 1
    return number, power
