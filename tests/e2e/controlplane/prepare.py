"""Build the missing programs for the end-to-end tests, with a notice; `make test` runs this before the tests.

It never fails: without Go or a network, pytest skips those tests and reports so at its end.
"""

import re
import subprocess
import sys
from pathlib import Path

NOTICE = """\
The end-to-end tests run against a real control plane, which is built now from Go modules and kept outside the
repository. This takes minutes, once."""
SKIPPED = "The end-to-end tests that need it are skipped."


def main() -> None:
    """Run build.py and print its messages."""
    command = [sys.executable, str(Path(__file__).with_name("build.py"))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = False
        for line in process.stderr:
            if not said and re.match(r"building \S+ \(", line):
                print(NOTICE, flush=True)
                said = True
            if line.startswith("Traceback"):
                # Go has printed the reason; the traceback of build.py adds nothing.
                break
            print(line, end="", flush=True)
        process.stderr.read()
    if process.returncode:
        print(SKIPPED)


if __name__ == "__main__":
    main()
