"""Exact resource quantities, and the texts that kube-apiserver stores (k8s.io/apimachinery/pkg/api/resource v0.36).

`Quantity` computes and writes canonical text. `stored_quantity` reproduces the text of upstream, which keeps a text
that its parser considers canonical, such as ``+5``, ``1.500`` or ``1E3``, and formats all others.
tests/e2e/test_workload_rules.py compares the result with the Go code.
"""

import re
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Final, Literal, NamedTuple

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
# Most workloads have the same few amounts. Parsing one takes 20 µs.
_MAX_PARSED: Final = 1_024


@total_ordering
class Quantity:
    """An amount of a resource: CPU, bytes, a count.

    Arithmetic is exact. The text is canonical: without fractional digits, with the largest suffix that allows that, and
    in the family of suffixes of the parsed text.
    """

    __slots__ = ("format", "value")

    def __init__(self, value: Fraction | int | str, format_: Format = "DecimalSI") -> None:
        """Take an amount, or a text as `parse` does."""
        amount, family = _read_quantity(value) if isinstance(value, str) else (Fraction(value), format_)
        self.value: Final = amount
        self.format: Final[Format] = family

    @staticmethod
    def parse(text: str | int) -> "Quantity":
        """Return the amount of ``text``.

        As upstream, fractions of a nano are rounded away from zero, so that a positive request never becomes zero.
        Amounts beyond 2^63-1 are set to 2^63-1.

        Raises:
            ValueError: ``text`` is no quantity.
        """
        return Quantity(str(text))

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value + other.value, self.format if self.value else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value - other.value, self.format if self.value else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.value, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __int__(self) -> int:
        """Return the amount as an integer, rounded away from zero (``Value`` upstream)."""
        return int(_round_away(self.value, 1))

    def __str__(self) -> str:
        return _format(self.value, self.format, max_factors=_MAX_FACTORS)


@lru_cache(_MAX_PARSED)
def _read_quantity(text: str) -> tuple[Fraction, Format]:
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_QUANTITY_LENGTH else None
    if match is None:
        raise _not_a_quantity(text)
    sign, number, suffix = match.groups()
    power, format_ = _interpret_suffix(suffix, text)
    amount = _compute_amount(number, 0 if format_ == "BinarySI" else power)
    amount *= 1024**power if format_ == "BinarySI" else 1
    magnitude = min(_round_away(amount, _NANO), Fraction(_MAX_AMOUNT))
    if format_ == "BinarySI" and 0 < magnitude < 1:
        format_ = "DecimalSI"
    return -magnitude if sign == "-" else magnitude, format_


def _not_a_quantity(text: str | int) -> ValueError:
    """Return the error for a text that is no quantity."""
    written = str(text)
    if len(written) > MAX_QUANTITY_LENGTH:
        problem = f"has {len(written)} characters, the limit is {MAX_QUANTITY_LENGTH}"
        return ValueError(f"{written[:_MAX_SHOWN]!r}… is not a quantity: it {problem}")
    shown = repr(text) if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]!r}…"
    return ValueError(f"{shown} is not a quantity: write a number and one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or eN")


def _interpret_suffix(suffix: str, text: str | int) -> tuple[int, Format]:
    """Return the power of ten, or of 1024 for BinarySI, and the format that a suffix means."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return _BINARY[suffix], "BinarySI"
    if suffix[:1] in ("e", "E") and suffix[1:]:
        try:
            return int(suffix[1:]), "DecimalExponent"
        except ValueError:
            raise _not_a_quantity(text) from None
    raise _not_a_quantity(text)


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


def _round_away(value: Fraction, parts: int) -> Fraction:
    """Return a value rounded away from zero to a multiple of ``1/parts``."""
    magnitude = -(-abs(value.numerator) * parts // value.denominator)
    return Fraction(-magnitude if value < 0 else magnitude, parts)


def _format(value: Fraction, format_: str, *, max_factors: dict[int, int]) -> str:
    """Return a value with the largest suffix that allows a mantissa without fractional digits."""
    if not value:
        return "0"
    # A binary suffix would lose digits below 1024 and of fractions, so upstream writes these in decimal.
    if format_ == "BinarySI" and abs(value) >= 1024 and value.denominator == 1:
        mantissa, power = _remove_factors(value.numerator, 1024, max_factors)
        return f"{mantissa}{_BINARY_SUFFIX.get(power, '')}"
    mantissa, power = _remove_factors(int(value * _NANO), 1000, max_factors)
    exponent = 3 * power - 9
    if format_ == "DecimalExponent":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX.get(exponent, '')}"


# The factors 1000 of a nano and the factors 1024 that the largest suffixes, E and Ei, stand for.
_MAX_FACTORS: Final = {1000: 9, 1024: 6}
# Upstream writes no suffix if none fits: it stores 1000E as 1.
_UNLIMITED: Final = {1000: 1_000_000, 1024: 1_000_000}


def _remove_factors(number: int, base: int, max_factors: dict[int, int]) -> tuple[int, int]:
    """Return ``number`` without factors ``base``, and the number of removed factors."""
    power = 0
    while number % base == 0 and power < max_factors[base]:
        number //= base
        power += 1
    return number, power


_STORED: Final = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]{0,3})", re.ASCII)
_NANO_SCALE: Final = -9
_MILLI_SCALE: Final = -3
_MAX_DIGITS: Final = 18
"""Decimal digits that always fit into an int64, for which upstream has a fast path."""
_CACHED_TEXTS: Final = 4096


class _Parsed(NamedTuple):
    number: Fraction
    format: Format
    scale: int
    """The power of ten of the last digit in upstream's int64 form; below `_NANO_SCALE` without such a form."""
    text: str
    """The parsed text if upstream reuses it, else empty."""

    def __str__(self) -> str:
        return self.text or _format(self.number, self.format, max_factors=_UNLIMITED)


@lru_cache(_CACHED_TEXTS)
def stored_quantity(text: str) -> str:
    """Return the stored form of a single quantity, such as ``emptyDir.sizeLimit``.

    Raises:
        ValueError: ``text`` is no quantity.
    """
    return str(_parse(str(_parse(text.strip()))))


@lru_cache(_CACHED_TEXTS)
def stored_resource(text: str) -> str:
    """Return the stored form of a quantity in ``requests`` or ``limits``: rounded up to thousandths by defaulting.

    Raises:
        ValueError: ``text`` is no quantity.
    """
    parsed = _parse(text.strip())
    if parsed.scale < _MILLI_SCALE:
        parsed = _Parsed(_round_away(parsed.number, 1000), parsed.format, _MILLI_SCALE, "")
    return str(_parse(str(parsed)))


def _parse(text: str) -> _Parsed:
    match = _STORED.fullmatch(text) if 0 < len(text) <= MAX_QUANTITY_LENGTH else None
    if match is None:
        raise _not_a_quantity(text)
    sign, zeros, digits, decimals, suffix = match.groups(default="")
    power, format_ = _interpret_suffix(suffix, text)
    number = Fraction(int(f"{sign}{digits or 0}{decimals}"), 10 ** len(decimals))
    if format_ == "BinarySI":
        parsed = _parse_binary(text, number * 1024**power, digits=digits or "0", decimals=decimals, power=power)
    else:
        number *= Fraction(10) ** power
        scale = power - len(decimals)
        parsed = _parse_decimal(text, number, digits=(digits or "0") + decimals, scale=scale, format_=format_)
    if parsed.scale < _NANO_SCALE and not (zeros or digits or decimals):
        raise _not_a_quantity(text)  # only the fast path upstream accepts a suffix without digits
    return parsed


def _parse_decimal(text: str, number: Fraction, *, digits: str, scale: int, format_: Format) -> _Parsed:
    if len(digits) <= _MAX_DIGITS and scale >= _NANO_SCALE:
        reused = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return _Parsed(number, format_, scale, text if reused else "")
    return _Parsed(_round_away(number, _NANO), format_, _NANO_SCALE - 1, "")


def _parse_binary(text: str, number: Fraction, *, digits: str, decimals: str, power: int) -> _Parsed:
    if not decimals and len(digits) + 3 * power < 15 and abs(number) <= _MAX_AMOUNT:
        reused = int(digits) & 7 != 0
        return _Parsed(number, "BinarySI", 0, text if reused else "")
    # Upstream limits and tests the magnitude, and restores the sign afterwards.
    number = max(-Fraction(_MAX_AMOUNT), min(_round_away(number, _NANO), Fraction(_MAX_AMOUNT)))
    return _Parsed(number, "DecimalSI" if 0 < abs(number) < 1 else "BinarySI", _NANO_SCALE - 1, "")
