"""Texts of JSON values one after the other, as Go's encoding/json reads them."""

import pytest

from fleethook.cluster.manifests.json_stream import make_number, scan_json


def test_values_have_their_positions() -> None:
    stream = scan_json(' {"a": [1, 2.5]}\n\ntrue null{"b": 1, "b": 2} ')
    assert [(one.value, one.start, one.end, one.has_duplicates) for one in stream.parts] == [
        ({"a": [1, 2.5]}, 1, 16, False), (True, 18, 22, False), (None, 23, 27, False), (None, 27, 43, True),
    ]  # fmt: skip
    assert (stream.error, stream.is_json) == ("", True)


@pytest.mark.parametrize(
    ("text", "is_json"),
    [("", True), ("{} {}", True), ("{x", False), ("{} x", False), ("{} {} x", True), ("{}\n---\n{}", False)],
)
def test_two_values_make_a_stream(text: str, is_json: bool) -> None:
    assert scan_json(text).is_json is is_json


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "'NaN' is not a number that JSON has"), ("-Infinity", "is not a number that JSON has"), ("1e999", "'1e999' is too large a number"),
        ("1" * 5000, "an integer is too large"), ("[" * 100_000, "is nested too deep"), ('"a', "unterminated string"), ('"\n"', "invalid control character"),
    ],
)  # fmt: skip
def test_other_values_are_errors_and_the_former_values_stay(value: str, reason: str) -> None:
    stream = scan_json(f'{{}} {{}} {{"a": {value}}}')
    assert len(stream.parts) == 2
    assert reason in stream.error
    assert 6 <= stream.position < 16


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (2**63, 2.0**63), (2**64 - 1, 2.0**64), (-(2**63) - 1, -(2.0**63)),
        (1.0, 1), (1e3, 1000), (1.5, 1.5), (1e20, 1e20), (-0.0, 0),
    ],
)  # fmt: skip
def test_numbers_are_those_that_kubectl_sends(number: float, kept: float) -> None:
    assert (make_number(number), type(make_number(number))) == (kept, type(kept))
    (part,) = scan_json(repr(number)).parts
    assert (part.value, type(part.value)) == (kept, type(kept))
