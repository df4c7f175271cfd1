"""The warnings of webhooks are limited as an apiserver limits them."""

from fleethook.engines.dispatch.call.client_warnings import limit_warnings


def test_duplicate_warnings_are_removed_in_order() -> None:
    assert limit_warnings(["b", "a", "b"]) == ("b", "a")


def test_empty_warnings_and_control_characters_are_dropped() -> None:
    assert limit_warnings(["", "a\nb\x00c\x7f", "\ud800"]) == ("abc",)


def test_4096_characters_are_returned_in_full() -> None:
    given = [f"{number:04}" + "x" * 1020 for number in range(4)]
    assert limit_warnings(given) == tuple(given)


def test_longer_warnings_are_truncated_to_256_characters() -> None:
    given = [f"{number:04}" + "x" * 1021 for number in range(40)]
    found = limit_warnings(given)
    assert found == tuple(text[:256] for text in given[:16])
    assert sum(map(len, found)) == 4096


def test_equal_truncated_warnings_are_returned_once() -> None:
    assert len(limit_warnings(["x" * 3000 + "1", "x" * 3000 + "2"])) == 1
