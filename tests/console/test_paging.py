import pytest

from fleethook.console.paging import paginate, take_page


@pytest.mark.parametrize(("page", "expected"), [(-1, 1), (0, 1), (1, 1), (3, 3), (99, 3)])
def test_a_page_beyond_the_ends_is_the_nearest_one(page: int, expected: int) -> None:
    assert paginate(41, page, 20)[:3] == (expected, 3, 41)


def test_no_element_is_one_empty_page() -> None:
    assert paginate(0, 5, 20) == (1, 1, 0, 0)


def test_the_elements_are_those_of_the_nearest_existing_page() -> None:
    assert take_page("abcde", 0, 2) == ("ab", (1, 3, 5, 0))
    assert take_page("abcde", 9, 2) == ("e", (3, 3, 5, 4))
    assert take_page("", 1, 2) == ("", (1, 1, 0, 0))
