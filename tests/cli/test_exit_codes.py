"""Tests of ending a command."""

import subprocess
import sys

import pytest

from fleethook.cli.exit_codes import CHECK_FAILED, fail
from tests.serving import ROOT


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


SWALLOWING = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fleethook.cli.exit_codes import exit_at_interrupt, raise_at_interrupt
class Interrupted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("statements", "code", "printed"),
    [
        # The interpreter drops an exception of a finalizer, and the program would go on.
        ("exit_at_interrupt(); Interrupted(); print('lost')", 130, ""),
        ("exit_at_interrupt(); raise_at_interrupt(); Interrupted(); print('lost')", 0, "lost\n"),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); exit_at_interrupt(); Interrupted(); print('on')", 0, "on\n"),
    ],
)
def test_ctrl_c_ends_a_program_at_once_wherever_it_arrives(statements: str, code: int, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{SWALLOWING}\n{statements}"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (code, printed)
    assert ("KeyboardInterrupt" in done.stderr) == (printed == "lost\n")
