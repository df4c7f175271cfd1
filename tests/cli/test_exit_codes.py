"""Tests of ending a command."""

import pytest

from app.cli.exit_codes import CHECK_FAILED, fail


@pytest.mark.parametrize(("options", "code"), [({}, 2), ({"code": CHECK_FAILED}, 1), ({"code": 23}, 23)])
def test_a_failure_has_a_message_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], options: dict[str, int], code: int
) -> None:
    with pytest.raises(SystemExit) as caught:
        fail("no such\nfile", **options)
    assert caught.value.code == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("fleethook: no such")
    assert shown.err.count("\n") == 1
