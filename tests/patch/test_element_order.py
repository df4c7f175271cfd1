import pytest

from app.patch.element_order import order_elements


@pytest.mark.parametrize(
    ("merged", "wanted", "server", "expected"),
    [
        ("abc", "", "abc", "abc"),
        ("abc", "cba", "abc", "cba"),
        # An element of the server goes first only where the server had it before the next one of the patch.
        ("abcx", "x", "abc", "xabc"),
        ("abcx", "bx", "abc", "abxc"),
        ("abc", "ca", "abc", "bca"),
        ("abcd", "db", "abcd", "acdb"),
        ("aab", "a", "aab", "aab"),
        ("", "ab", "", ""),
    ],
)
def test_the_order_of_the_patch_wins_and_the_servers_fills_in(
    merged: str, wanted: str, server: str, expected: str
) -> None:
    assert "".join(order_elements(list(merged), wanted=wanted, server=server, identify=str)) == expected
