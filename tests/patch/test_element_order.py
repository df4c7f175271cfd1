import pytest

from app.patch.element_order import order_elements


@pytest.mark.parametrize(
    ("merged", "wanted", "server", "expected"),
    [
        ("abc", "", "abc", "abc"),
        ("abc", "cba", "abc", "cba"),
        # An element of the server comes first only if it preceded the next element of the patch.
        ("abcx", "x", "abc", "xabc"),
        ("abcx", "bx", "abc", "abxc"),
        ("abc", "ca", "abc", "bca"),
        ("abcd", "db", "abcd", "acdb"),
        ("aab", "a", "aab", "aab"),
        ("", "ab", "", ""),
    ],
)
def test_elements_of_the_patch_keep_its_order_among_those_of_the_server(
    merged: str, wanted: str, server: str, expected: str
) -> None:
    assert "".join(order_elements(list(merged), wanted=wanted, server=server, identify=str)) == expected
