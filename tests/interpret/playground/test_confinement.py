import subprocess
import sys

import pytest

CONFINE = """
import resource
from app.interpret.playground import confinement
from app.interpret.playground.system_call_filter import FilterError

def refuse(program):
    raise FilterError("no filter here")

if {broken}:
    confinement.install_filter = refuse
try:
    confinement.confine("{language}")
except FilterError as error:
    print("refused:", error)
else:
    try:
        open("/etc/hostname")
    except OSError as error:
        print(type(error).__name__, error.errno)
"""


def run(*, language: str, broken: bool) -> str:
    code = CONFINE.format(language=language, broken=broken)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("language", ["lua", "python"])
def test_a_confined_process_cannot_open_files(language: str) -> None:
    assert run(language=language, broken=False) == "PermissionError 1"


def test_without_a_filter_lua_runs_but_can_open_no_file() -> None:
    assert run(language="lua", broken=True) == "OSError 24"


def test_without_a_filter_python_does_not_run() -> None:
    assert run(language="python", broken=True) == "refused: no filter here"
