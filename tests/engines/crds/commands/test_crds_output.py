"""Output and exit codes of ``fleethook crds``."""

import pytest

from fleethook.engines.crds.commands.crds_output import Output, exit_on_error, show, warn
from fleethook.engines.crds.crds_errors import CRDsError, Exit


@pytest.mark.parametrize("code", [one for one in Exit if one is not Exit.OK])
def test_an_error_ends_the_command_with_its_code(capsys: pytest.CaptureFixture[str], code: Exit) -> None:
    with pytest.raises(SystemExit) as caught, exit_on_error():
        raise CRDsError(code, "no\x1b[0m")
    assert caught.value.code == code
    assert capsys.readouterr().err == "fleethook: no\\x1b[0m\n"


def test_an_interruption_tells_what_has_happened(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, exit_on_error("two CRDs are applied"):
        raise KeyboardInterrupt
    assert caught.value.code == 130
    assert capsys.readouterr().err == "fleethook: interrupted; two CRDs are applied\n"


def test_other_errors_and_success_pass() -> None:
    with exit_on_error():
        pass
    with pytest.raises(ZeroDivisionError), exit_on_error():
        raise ZeroDivisionError


def test_a_result_is_lines_or_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    show(Output.TEXT, ["a", "b\n"], {"a": 1})
    show(Output.JSON, ["a", "b"], {"a": "é"})
    assert capsys.readouterr().out == 'a\nb\\n\n{"a": "\\u00e9"}\n'


def test_warnings_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    warn(("one", "two"))
    assert capsys.readouterr() == ("", "warning: one\nwarning: two\n")
