import pytest

from fleethook.cel.library.parsing import can_parse


def test_only_a_value_error_means_that_a_text_does_not_parse() -> None:
    assert can_parse(int, "7")
    assert not can_parse(int, "x")
    with pytest.raises(KeyError):
        can_parse({}.__getitem__, "x")
