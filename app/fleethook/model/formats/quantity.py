"""Exact resource quantities with canonical text (k8s.io/apimachinery/pkg/api/resource)."""

import re
from fractions import Fraction
from functools import total_ordering
from typing import Final, Literal

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_SUFFIX: Final = {power: suffix for suffix, power in _BINARY.items()}

_QUANTITY: Final = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9}|[a-zA-Z]{0,2})", re.ASCII)
_MAX_AMOUNT: Final = 2**63 - 1
_NANO: Final = 10**9
MAX_QUANTITY_LENGTH: Final = 1024
"""Maximum characters of a quantity. Kubernetes has no such limit, but millions of digits take seconds."""
# An amount with more than 20 digits before the point exceeds the maximum. One that starts 64 digits after the point is
# below a nano with any suffix. So larger exponents need not be computed.
_MAX_PLACES: Final = 20
_MIN_PLACES: Final = -64
_MAX_SHOWN: Final = 64


@total_ordering
class Quantity:
    """An amount of a resource: CPU, bytes, a count.

    Arithmetic is exact. The text is canonical: without fractional digits, with the largest suffix that allows that, and
    in the family of suffixes of the parsed text.
    """

    __slots__ = ("format", "value")

    def __init__(self, value: Fraction | int, format_: Format = "DecimalSI") -> None:
        self.value: Final = Fraction(value)
        self.format: Final[Format] = format_

    @classmethod
    def parse(cls, text: str | int) -> "Quantity":
        """Return the amount of ``text``.

        As upstream, fractions of a nano are rounded away from zero, so that a positive request never becomes zero.
        Amounts beyond 2^63-1 are set to 2^63-1.

        Raises:
            ValueError: ``text`` is no quantity.
        """
        match = _QUANTITY.fullmatch(str(text)) if len(str(text)) <= MAX_QUANTITY_LENGTH else None
        if match is None:
            raise not_a_quantity(text)
        sign, number, suffix = match.groups()
        exponent, factor, format_ = _interpret_suffix(suffix, text)
        magnitude = min(_round_up(_compute_amount(number, exponent) * factor, _NANO), Fraction(_MAX_AMOUNT))
        if format_ == "BinarySI" and 0 < magnitude < 1:
            format_ = "DecimalSI"
        return cls(-magnitude if sign == "-" else magnitude, format_)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value + other.value, self.format if self.value else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value - other.value, self.format if self.value else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.value, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: "Quantity") -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __int__(self) -> int:
        """Return the amount as an integer, rounded away from zero (``Value`` upstream)."""
        return self._scale(1)

    def milli(self) -> int:
        """Return the amount in thousandths, rounded away from zero (``MilliValue`` upstream)."""
        return self._scale(1000)

    def _scale(self, parts: int) -> int:
        magnitude = int(_round_up(abs(self.value), parts) * parts)
        return -magnitude if self.value < 0 else magnitude

    def __str__(self) -> str:
        if not self.value:
            return "0"
        # A binary suffix would lose digits below 1024 and of fractions, so upstream writes these in decimal.
        if self.format == "BinarySI" and abs(self.value) >= 1024 and self.value.denominator == 1:
            return _format_binary(self.value.numerator)
        mantissa, exponent = _split_decimal(self.value)
        if self.format == "DecimalExponent":
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"


def not_a_quantity(text: str | int) -> ValueError:
    """Return the error for a text that is no quantity."""
    written = str(text)
    if len(written) > MAX_QUANTITY_LENGTH:
        problem = f"has {len(written)} characters, the limit is {MAX_QUANTITY_LENGTH}"
        return ValueError(f"{written[:_MAX_SHOWN]!r}… is not a quantity: it {problem}")
    shown = repr(text) if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]!r}…"
    return ValueError(f"{shown} is not a quantity: write a number and one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or eN")


def _interpret_suffix(suffix: str, text: str | int) -> tuple[int, int, Format]:
    """Return the power of ten, the factor and the format that a suffix means."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 1, "DecimalSI"
    if suffix in _BINARY:
        return 0, 1024 ** _BINARY[suffix], "BinarySI"
    if suffix[:1] in ("e", "E") and suffix[1:]:
        try:
            return int(suffix[1:]), 1, "DecimalExponent"
        except ValueError:
            raise not_a_quantity(text) from None
    raise not_a_quantity(text)


def _compute_amount(number: str, exponent: int) -> Fraction:
    """Return a decimal number times a power of ten, exact within the range of quantities."""
    whole, _, decimals = number.partition(".")
    digits = (whole + decimals).lstrip("0")
    if not digits:
        return Fraction(0)
    places = len(digits) - len(decimals) + exponent
    if places > _MAX_PLACES:
        return Fraction(_MAX_AMOUNT)
    return int(digits) * Fraction(10) ** (max(places, _MIN_PLACES) - len(digits))


def _round_up(magnitude: Fraction, parts: int) -> Fraction:
    """Return a non-negative amount rounded up to a multiple of ``1/parts``."""
    return Fraction(-(-magnitude.numerator * parts // magnitude.denominator), parts)


def _split_decimal(value: Fraction) -> tuple[int, int]:
    """Return mantissa and exponent of ``value``, with the largest exponent that is a multiple of three."""
    mantissa, exponent = int(value * _NANO), -9
    while mantissa % 1000 == 0 and exponent < 18:
        mantissa //= 1000
        exponent += 3
    return mantissa, exponent


def _format_binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < 6:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIX[power]}" if power else str(value)
