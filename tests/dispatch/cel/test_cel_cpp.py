from datetime import UTC, datetime, timedelta

import pytest

from app.dispatch.cel.cel_cpp import delegate, evaluate
from app.dispatch.cel.values import Uint


def test_an_expression_reads_its_arguments_in_order() -> None:
    assert delegate("a + b")("x", "y") == "xy"


def test_times_pass_as_strings() -> None:
    assert delegate("timestamp(a).getFullYear()")(datetime(2020, 1, 1, tzinfo=UTC)) == 2020
    assert delegate("duration(a).getMinutes()")(timedelta(hours=2)) == 120


def test_unsigned_integers_keep_their_type() -> None:
    result = delegate("uint(a)")("7")

    assert result == 7
    assert type(result) is Uint


@pytest.mark.parametrize(
    ("expression", "argument", "error"),
    [
        ("a.matches('(')", "x", "invalid regular expression: missing ): ("),
        ("a.matches('x')", "\ud800", "a text is not valid UTF-8"),
        ("a.b", {}, "no such key: b"),
    ],
)
def test_an_error_has_cel_gos_text(expression: str, argument: object, error: str) -> None:
    with pytest.raises(ValueError, match=r".") as failed:
        evaluate(expression, argument)

    assert str(failed.value) == error
