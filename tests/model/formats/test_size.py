from typing import Any

import pytest

from fleethook.model.formats.size import count_values


@pytest.mark.parametrize(
    ("document", "count"), [(None, 1), ([], 1), ({"a": 1}, 2), ([[1], {"b": [2, 3]}], 7), ("text", 1)]
)
def test_each_value_counts(document: Any, count: int) -> None:
    assert count_values(document, limit=100) == count


def test_counting_stops_after_the_limit() -> None:
    class Unread(list[Any]):
        def __len__(self) -> int:
            raise AssertionError("counted beyond the limit")

    assert count_values([Unread(), *range(10)], limit=5) > 5
