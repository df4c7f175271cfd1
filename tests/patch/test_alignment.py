from typing import Any

import pytest

from app.patch.alignment import align


def named(*names: str) -> list[Any]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ([1, 2, 3], [1, 3], [(0, 0), (2, 1)]),
        ([1, 2], [3, 4], []),
        ([1, 1.0, True], [1.0, True], [(1, 0), (2, 1)]),
        (named("a", "b"), [{"name": "x"}, {"name": "a", "image": "i"}, {"name": "b"}], [(0, 1), (1, 2)]),
        # Pairs keep the order of both lists, so of two moved elements only one has a pair.
        ([1, 2], [2, 1], [(1, 0)]),
        # An unchanged element counts more than two elements that only kept their names.
        (
            [{"name": "c", "v": 1}, {"name": "a", "v": 1}, {"name": "b", "v": 1}],
            [{"name": "a", "v": 2}, {"name": "b", "v": 2}, {"name": "c", "v": 1}],
            [(0, 2)],
        ),
        ([], [1], []),
    ],
)
def test_elements_align_by_value_or_name(old: list[Any], new: list[Any], pairs: list[tuple[int, int]]) -> None:
    assert align(old, new) == pairs


def test_long_lists_align_by_index() -> None:
    old, new = named(*map(str, range(65))), named(*map(str, range(1, 66)))

    assert align(old[:64], new[:64])[0] == (1, 0)
    assert align(old, new) == [(index, index) for index in range(65)]
