"""Checks the English of the repository: `python -m tests.language [PATH…]`, part of `make check`.

Without arguments it reads every file that git knows. Prints `path:line: kind: fault` and exits with 1 if there is one.
"""

import subprocess
import sys
from pathlib import Path

from tests.language.rules import find_faults
from tests.language.texts import read_texts

# Upstream's texts, and a page that `make bench` writes.
EXCLUDED = ("tests/conformance/karmada/thirdparty/", "benchmarks/RESULTS.md")


def list_files(arguments: list[str]) -> list[Path]:
    """Return the given files, those below given directories, or those of the repository."""
    if not arguments:
        listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
        return [Path(name) for name in listed.split("\0") if name and not name.startswith(EXCLUDED)]
    return [file for path in map(Path, arguments) for file in (path.rglob("*") if path.is_dir() else [path])]


def main(arguments: list[str]) -> int:
    """Print the faults and return the exit code."""
    faults = [
        f"{text.path}:{text.line}: {text.kind}: {fault}"
        for path in list_files(arguments)
        if path.is_file()
        for text in read_texts(path)
        for fault in find_faults(text)
    ]
    print("\n".join(faults))
    print(f"{len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
