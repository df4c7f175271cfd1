"""``kubectl_complete-fleethook``: completes ``kubectl fleethook …``.

kubectl 1.26 and later runs a program of this name with the words of the command line, the last of which is to be
completed. It expects the output of cobra's ``__complete``: a line for each completion, and a line with flags.
"""

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from app.cli import PROGRAM, app
from app.cli.terminal import write

_COMPLETE_FILES: Final = ":0"
_COMPLETE_NO_FILES: Final = ":4"


def list_completions(words: Sequence[str]) -> list[str]:
    """Return the completions of the last word of a command line without the program's name.

    Typer completes by the protocol of its bash script.
    """
    line = shlex.join([PROGRAM, *words])
    protocol = {f"_{PROGRAM.upper()}_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    os.environ.update(protocol)
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            app(prog_name=PROGRAM)
    finally:
        for name in protocol:
            del os.environ[name]
    return [line for line in output.getvalue().splitlines() if line]


def main() -> None:
    """Print the completions of the program's arguments."""
    found = list_completions(sys.argv[1:])
    write(*found, _COMPLETE_NO_FILES if found else _COMPLETE_FILES)
