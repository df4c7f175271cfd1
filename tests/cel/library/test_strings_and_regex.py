import pytest

from fleethook.cel.cost_and_length_limits import run_without_request
from fleethook.cel.library.strings_and_regex import format_list, measure_weight


def test_deep_values_are_rejected() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        measure_weight(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("%", "unexpected end of string"),
        ("%.", "could not find end of precision specifier"),
        ("%.s", "invalid syntax"),
        ("%5d", 'clause "5"'),
        ("%d %d", "index 1 out of range"),
        ("%.99999999f", "the precision exceeds"),
    ],
)
def test_an_invalid_format_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        run_without_request(lambda: format_list(text, [1]))
