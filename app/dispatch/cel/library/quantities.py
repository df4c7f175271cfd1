"""Resource quantities in expressions (upstream: pkg/cel/library/quantity.go)."""

from fractions import Fraction
from typing import Any, Final

from google.protobuf.message import Message

from app.dispatch.cel.functions import Function
from app.dispatch.cel.protobuf_types import message_type
from app.model.quantity import Quantity

_QUANTITY: Final = message_type("Quantity")
_NANO: Final = 10**9
_LARGEST: Final = 2**63 - 1


def _message(value: Fraction) -> Message:
    # Quantities are whole nanos. Equal amounts have equal texts, so 1 and 1000m are equal as messages.
    return _QUANTITY(nanos=str(int(value * _NANO)))


def _value(message: Any) -> Fraction:
    return Fraction(int(message.nanos or "0"), _NANO)


def _quantity(text: str) -> Message:
    try:
        return _message(Quantity.parse(text).value)
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
    value = _value(quantity)
    return value.denominator == 1 and abs(value) <= _LARGEST


def _as_integer(quantity: Message) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return _value(quantity).numerator


def _compare(one: Message, other: Message) -> int:
    difference = _value(one) - _value(other)
    return (difference > 0) - (difference < 0)


def _number(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, int) else _value(value)


_Q: Final = "kubernetes.Quantity"
FUNCTIONS: Final = (
    Function("quantity", ("string",), _Q, _quantity, member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, member=False),
    # Kubernetes declares it as a function, not as a member, whatever its documentation says.
    Function("sign", (_Q,), "int", lambda quantity: (_value(quantity) > 0) - (_value(quantity) < 0), member=False),
    Function("isInteger", (_Q,), "bool", _is_integer),
    Function("asInteger", (_Q,), "int", _as_integer),
    Function("asApproximateFloat", (_Q,), "double", lambda quantity: float(_value(quantity))),
    Function("isGreaterThan", (_Q, _Q), "bool", lambda one, other: _compare(one, other) > 0),
    Function("isLessThan", (_Q, _Q), "bool", lambda one, other: _compare(one, other) < 0),
    Function("compareTo", (_Q, _Q), "int", _compare),
    *(
        Function(name, (_Q, type_), _Q, lambda one, other, by=factor: _message(_value(one) + by * _number(other)))
        for name, factor in (("add", 1), ("sub", -1))
        for type_ in (_Q, "int")
    ),
)
