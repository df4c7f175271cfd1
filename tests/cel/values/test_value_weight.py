import pytest

from fleethook.cel.values.value_weight import measure_weight


@pytest.mark.parametrize(
    ("value", "weight"),
    [(1, 1), ("a" * 25, 1 + 2), ([1, [2]], 4), ({"a" * 10: [b"b" * 30]}, 1 + 2 + 1 + 1 + 3), (None, 1)],
)
def test_the_weight_counts_values_and_tens_of_characters(value: object, weight: int) -> None:
    assert measure_weight(value) == weight


def test_deep_values_are_rejected() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        measure_weight(value)
