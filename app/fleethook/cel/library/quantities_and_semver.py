"""Resource quantities and semantic versions (k8s.io/apiserver/pkg/cel/library: quantity.go, semverlib.go).

An amount is a number of 64 bits with a power of ten, or a decimal of any size. Upstream decides by this form whether an
amount is an integer: 1000m and 1Pi are not. Sources: k8s.io/apimachinery/pkg/api/resource, github.com/blang/semver/v4.
"""

import math
import re
from typing import Any, Final, TypeAlias

from fleethook.cel.values.values_and_overloads import MAX_INT, MIN_INT, Foreign, Function, can_parse, quote_text
from fleethook.model.formats.quantity import MAX_QUANTITY_LENGTH

# `parseQuantityString` upstream also accepts texts without digits, such as "m" and "-".
_TEXT: Final = re.compile(r"([+-]?)(0*)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_MAX_FACTORS: Final = 18
_NANO: Final = -9
# A decimal with more places takes long to compute; kube-apiserver has no limit.
_MAX_PLACES: Final = 4096
_MAX_FLOAT_EXPONENT: Final = 308
_MIN_FLOAT_EXPONENT: Final = -323
_WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


class QuantityValue(Foreign):
    """An amount: ``value`` times ten to the power of ``scale``; ``decimal`` unless it has 64 bits."""

    __slots__ = ("decimal", "scale", "value")
    kind = "kubernetes.Quantity"

    def __init__(self, value: int, scale: int = 0, *, decimal: bool = False) -> None:
        self.value: Final = value
        self.scale: Final = scale
        self.decimal: Final = decimal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and _compare(self, other) == 0

    def __hash__(self) -> int:
        value, scale = self.value, self.scale
        while value and value % 10 == 0:
            value, scale = value // 10, scale + 1
        return hash((value, scale if value else 0))


def _parse_quantity(text: str) -> QuantityValue:
    match = _TEXT.fullmatch(text) if 0 < len(text) <= MAX_QUANTITY_LENGTH else None
    if match is None:
        raise ValueError(_WRONG_FORMAT)
    sign, zeros, whole, point, fraction, suffix = match.groups()
    # A text of zeros only, or a sign without digits, is zero.
    if not whole and not point and not suffix:
        return QuantityValue(0)
    exponent, power = _read_suffix(suffix)
    whole, fraction = whole or "0", fraction or ""
    small = _build_small(sign, whole, fraction, exponent, power)
    return small or _build_decimal(sign, (zeros + whole, fraction), exponent, power)


def _read_suffix(suffix: str) -> tuple[int, int]:
    """Return the power of ten and the power of two of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not -(2**31) <= int(match[1]) < 2**31:
        raise ValueError(_WRONG_SUFFIX)
    return int(match[1]), 0


def _build_small(sign: str, whole: str, fraction: str, exponent: int, power: int) -> QuantityValue | None:
    """Return an amount of 64 bits, None if upstream uses a decimal."""
    if power:
        fits = not fraction and 15 - len(whole) - int(power * 3 / 10) - 1 >= 0
    else:
        fits = _MAX_FACTORS - len(whole) - len(fraction) >= 0
    scale = exponent - len(fraction)
    if not fits or scale < _NANO:
        return None
    value = int(whole + fraction) << power
    if value > MAX_INT:
        return None
    return QuantityValue(-value if sign == "-" else value, scale)


def _build_decimal(sign: str, digits: tuple[str, str], exponent: int, power: int) -> QuantityValue:
    whole, fraction = digits
    value, scale = int(whole + fraction) << power, exponent - len(fraction)
    _check_places(scale)
    if value and scale < _NANO:
        # Upstream rounds up, so that a small request never becomes zero.
        value, scale = -(-value // 10 ** (_NANO - scale)), _NANO
    if power and value > MAX_INT * 10 ** max(0, -scale):
        value, scale = MAX_INT, 0
    return QuantityValue(-value if sign == "-" else value, scale, decimal=True)


def _check_places(scale: int) -> None:
    if abs(scale) > _MAX_PLACES:
        raise ValueError(f"fleethook computes quantities with at most {_MAX_PLACES} places")


def _read_integer(quantity: QuantityValue) -> int | None:
    """Return an amount of 64 bits without fractional places, None for others."""
    if quantity.decimal or quantity.scale < 0:
        return None
    if not quantity.value:
        return 0
    value = int(quantity.value * 10**quantity.scale) if quantity.scale <= _MAX_FACTORS else MAX_INT + 1
    return value if MIN_INT <= value <= MAX_INT else None


def _convert_to_integer(quantity: QuantityValue) -> int:
    value = _read_integer(quantity)
    if value is None:
        raise ValueError("cannot convert value to integer")
    return value


def _convert_to_float(quantity: QuantityValue) -> float:
    try:
        base = float(quantity.value)
    except OverflowError:
        base = math.copysign(math.inf, quantity.value)
    return base * _raise_ten(quantity.scale) if quantity.scale else base


def _raise_ten(exponent: int) -> float:
    """Return a power of ten with the rounding of Go's math.Pow10, which multiplies two of its table."""
    if exponent > _MAX_FLOAT_EXPONENT:
        return math.inf
    if exponent < _MIN_FLOAT_EXPONENT:
        return 0.0
    tens, ones = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{32 * tens}") * float(f"1e{ones}")
    return float(f"1e-{32 * tens}") / float(f"1e{ones}")


def _get_sign(quantity: QuantityValue) -> int:
    return (quantity.value > 0) - (quantity.value < 0)


def _compare(one: QuantityValue, other: QuantityValue) -> int:
    if not one.value or not other.value or _get_sign(one) != _get_sign(other):
        return (_get_sign(one) > _get_sign(other)) - (_get_sign(one) < _get_sign(other))
    left, right = (len(str(abs(each.value))) + each.scale for each in (one, other))
    if left != right:
        return _get_sign(one) * (1 if left > right else -1)
    # Both amounts have equally many digits before the point, so their scales differ by at most the number of digits.
    scale = min(one.scale, other.scale)
    first, second = (int(each.value * 10 ** (each.scale - scale)) for each in (one, other))
    return (first > second) - (first < second)


def _add(one: QuantityValue, other: QuantityValue) -> QuantityValue:
    if not other.value and not (one.decimal or other.decimal):
        return one
    if not one.value and not (one.decimal or other.decimal):
        return other
    for each in (one, other):
        _check_places(each.scale)
    scale = min(one.scale, other.scale)
    total = sum(each.value * 10 ** (each.scale - scale) for each in (one, other))
    small = not (one.decimal or other.decimal) and all(
        MIN_INT <= each.value * 10 ** (each.scale - scale) <= MAX_INT for each in (one, other)
    )
    return QuantityValue(total, scale, decimal=not (small and MIN_INT <= total <= MAX_INT))


_Q: Final = QuantityValue.kind


def _build_sum(name: str, *, negated: bool) -> tuple[Function, Function]:
    def add(one: QuantityValue, other: Any) -> QuantityValue:
        amount = other if isinstance(other, QuantityValue) else QuantityValue(other)
        return _add(one, QuantityValue(-amount.value, amount.scale, decimal=amount.decimal) if negated else amount)

    return Function(name, (_Q, _Q), add), Function(name, (_Q, "int"), add)


QUANTITY_FUNCTIONS: Final = (
    Function("quantity", ("string",), _parse_quantity),
    Function("isQuantity", ("string",), lambda text: can_parse(_parse_quantity, text)),
    Function("sign", (_Q,), _get_sign),
    Function("isInteger", (_Q,), lambda quantity: _read_integer(quantity) is not None),
    Function("asInteger", (_Q,), _convert_to_integer),
    Function("asApproximateFloat", (_Q,), _convert_to_float),
    Function("isGreaterThan", (_Q, _Q), lambda one, other: _compare(one, other) > 0),
    Function("isLessThan", (_Q, _Q), lambda one, other: _compare(one, other) < 0),
    Function("compareTo", (_Q, _Q), _compare),
    *_build_sum("add", negated=False),
    *_build_sum("sub", negated=True),
)


_VERSION_NUMBER: Final = r"(0|[1-9][0-9]{0,19})"
_VERSION_NAME: Final = "[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"{_VERSION_NUMBER}\.{_VERSION_NUMBER}\.{_VERSION_NUMBER}(?:-({_VERSION_NAME}(?:\.{_VERSION_NAME})*))?(?:\+{_VERSION_NAME}(?:\.{_VERSION_NAME})*)?",
    re.ASCII,
)
_MAX_NUMBER: Final = 2**64 - 1

# A number sorts before a text, and a release after all its pre-releases (semver.org, 11).
_Key: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


class Semver(Foreign):
    """A version; comparisons ignore its build metadata."""

    __slots__ = ("key", "text")
    kind = "kubernetes.Semver"

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.key: Final = _build_sort_key(text.partition("+")[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _parse_version(text: str, *, normalize: bool = False) -> Semver:
    """Check a version and return it."""
    if normalize:
        text = _normalize_version(text)
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{quote_text(text)} is not a semantic version")
    *numbers, pre = match.groups()
    if any(int(number) > _MAX_NUMBER for number in numbers):
        raise ValueError(f"{quote_text(text)} is not a semantic version: a number is too large")
    for part in (pre or "").split("."):
        if part.isdigit() and (len(part) > 20 or (len(part) > 1 and part.startswith("0"))):
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote_text(part)}")
    return Semver(text)


def _normalize_version(text: str) -> str:
    """Remove ``v`` and leading zeros, and append missing numbers."""
    parts = [_strip_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _strip_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdigit() else f"0{stripped}"


def _build_sort_key(text: str) -> _Key:
    core, _, pre = text.partition("-")
    parts = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pre.split(".") if pre)
    return tuple(int(number) for number in core.split(".")), not pre, parts


def _compare_versions(one: Semver, other: Semver) -> int:
    return (one.key > other.key) - (one.key < other.key)


def _get_number(position: int) -> Any:
    def get(version: Semver) -> int:
        # Go converts the unsigned number to a signed one.
        number = version.key[0][position]
        return number if number <= MAX_INT else number - 2**64

    return get


def _parse_normalized(text: str, normalize: bool) -> Semver:  # noqa: FBT001 - the argument of an expression
    return _parse_version(text, normalize=normalize)


_S: Final = Semver.kind
SEMVER_FUNCTIONS: Final = (
    Function("semver", ("string",), _parse_version),
    Function("semver", ("string", "bool"), _parse_normalized),
    Function("isSemver", ("string",), lambda text: can_parse(_parse_version, text)),
    Function(
        "isSemver",
        ("string", "bool"),
        lambda text, normal: can_parse(lambda one: _parse_version(one, normalize=normal), text),
    ),
    Function("major", (_S,), _get_number(0)),
    Function("minor", (_S,), _get_number(1)),
    Function("patch", (_S,), _get_number(2)),
    Function("isGreaterThan", (_S, _S), lambda one, other: _compare_versions(one, other) > 0),
    Function("isLessThan", (_S, _S), lambda one, other: _compare_versions(one, other) < 0),
    Function("compareTo", (_S, _S), _compare_versions),
)
