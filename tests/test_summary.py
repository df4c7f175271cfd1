"""The line about all runs of `make test-all` adds up their counts."""

import re
import subprocess
import sys
from pathlib import Path

from tests.summary import summarize

RUNS = {
    "one": "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no')\n",
    "two": "def test_a(): pass\ndef test_b(): pass\ndef test_c(): assert False\n",
    "three": "import pytest\n@pytest.fixture\ndef broken(): raise ValueError\ndef test_a(broken): pass\n",
}


def test_runs_are_added_up(tmp_path: Path) -> None:
    assert re.fullmatch(r"=+ no tests ran in 0\.00s \(0 runs\) =+", summarize(tmp_path))
    for name, text in RUNS.items():
        (tmp_path / f"test_{name}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", f"test_{name}.py", f"--junit-xml={name}.xml"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    line = summarize(tmp_path)
    assert re.fullmatch(r"=+ 3 passed, 1 failed, 1 errors, 1 skipped in \d+\.\d\ds \(3 runs\) =+", line), line
