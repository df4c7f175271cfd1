"""Resource quantities (k8s.io/apiserver/pkg/cel/library/quantity.go)."""

from fractions import Fraction
from typing import Any, Final

from google.protobuf.message import Message

from app.dispatch.cel.functions import Function
from app.dispatch.cel.protobuf_types import get_message_type
from app.model.quantity import Quantity

_QUANTITY: Final = get_message_type("Quantity")
_NANO: Final = 10**9
_MAX_INTEGER: Final = 2**63 - 1


def _build_message(value: Fraction) -> Message:
    # The nanos of a quantity are an integer. Equal amounts have equal texts, so 1 and 1000m are equal messages.
    return _QUANTITY(nanos=str(int(value * _NANO)))


def _read_value(message: Any) -> Fraction:
    return Fraction(int(message.nanos or "0"), _NANO)


def _parse_quantity(text: str) -> Message:
    try:
        return _build_message(Quantity.parse(text).value)
    except ValueError:
        # k8s.io/apimachinery/pkg/api/resource: ErrFormatWrong.
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _is_integer(quantity: Message) -> bool:
    value = _read_value(quantity)
    return value.denominator == 1 and abs(value) <= _MAX_INTEGER


def _convert_to_integer(quantity: Message) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return _read_value(quantity).numerator


def _compare(one: Message, other: Message) -> int:
    difference = _read_value(one) - _read_value(other)
    return (difference > 0) - (difference < 0)


def _read_number(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, int) else _read_value(value)


_Q: Final = "kubernetes.Quantity"
FUNCTIONS: Final = (
    Function("quantity", ("string",), _Q, _parse_quantity, member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, member=False),
    # Kubernetes documents it as a member and declares it as a function.
    Function(
        "sign", (_Q,), "int", lambda quantity: (_read_value(quantity) > 0) - (_read_value(quantity) < 0), member=False
    ),
    Function("isInteger", (_Q,), "bool", _is_integer),
    Function("asInteger", (_Q,), "int", _convert_to_integer),
    Function("asApproximateFloat", (_Q,), "double", lambda quantity: float(_read_value(quantity))),
    Function("isGreaterThan", (_Q, _Q), "bool", lambda one, other: _compare(one, other) > 0),
    Function("isLessThan", (_Q, _Q), "bool", lambda one, other: _compare(one, other) < 0),
    Function("compareTo", (_Q, _Q), "int", _compare),
    *(
        Function(
            name,
            (_Q, type_),
            _Q,
            lambda one, other, by=factor: _build_message(_read_value(one) + by * _read_number(other)),
        )
        for name, factor in (("add", 1), ("sub", -1))
        for type_ in (_Q, "int")
    ),
)
