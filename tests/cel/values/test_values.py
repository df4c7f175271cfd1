import pytest

from fleethook.cel.library.quantities import Quantity
from fleethook.cel.values.times import Duration, Timestamp
from fleethook.cel.values.values import (
    MAX_INT,
    MIN_INT,
    NONE,
    CelType,
    GrowingList,
    GrowingMap,
    Uint,
    get_kind,
    get_type,
    is_out_of_range,
    make_range_error,
    quote_text,
)


@pytest.mark.parametrize(
    ("value", "kind", "type_name"),
    [
        (True, "bool", "bool"),
        (1, "int", "int"),
        (Uint(1), "uint", "uint"),
        (1.5, "double", "double"),
        (GrowingList(), "list", "list"),
        (GrowingMap(), "map", "map"),
        (None, "null", "null_type"),
        (Duration(0), "duration", "google.protobuf.Duration"),
        (Timestamp(0), "timestamp", "google.protobuf.Timestamp"),
        (NONE, "optional_type", "optional_type"),
        (Quantity(1), "kubernetes.Quantity", "kubernetes.Quantity"),
        (CelType("int"), "type", "type"),
    ],
)
def test_values_have_a_kind_and_a_type(value: object, kind: str, type_name: str) -> None:
    assert get_kind(type(value)) == kind
    assert get_type(value) == CelType(type_name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(MAX_INT, False), (MIN_INT, False), (MAX_INT + 1, True), (MIN_INT - 1, True), (1e300, False), (True, False)],
)
def test_integers_beyond_64_bits_are_out_of_range(value: object, expected: bool) -> None:
    assert is_out_of_range(value) is expected


def test_the_error_for_a_huge_integer_omits_its_digits() -> None:
    assert make_range_error(2**63).text == "integer out of range: 9223372036854775808"
    assert make_range_error(-(10**5_000)).text == "integer out of range: more than 30 digits"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a", '"a"'), ('a"b\n', '"a\\"b\\n"'), ("é", '"é"'), ("x" * 300, f'"{"x" * 256}..."')],
)
def test_a_text_is_quoted_like_in_go_and_cut(text: str, quoted: str) -> None:
    assert quote_text(text) == quoted
