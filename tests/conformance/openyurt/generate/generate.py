"""Writes the answers of OpenYurt's own code into v1beta1.json.gz again, for the cases of that file (needs Go)."""

import gzip
import json
import subprocess
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
FILE: Final = HERE.parent / "v1beta1.json.gz"
INPUTS: Final = ("id", "subject", "nodePools", "pool", "revision", "existing", "raw")


def _go(*arguments: str, text: str = "") -> str:
    done = subprocess.run(["go", *arguments], cwd=HERE, check=True, input=text, text=True, stdout=subprocess.PIPE)
    return done.stdout


def _origin() -> dict[str, str]:
    return {
        "module": _go("list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/openyurtio/openyurt").strip(),
        "licence": "Apache-2.0, Copyright The OpenYurt Authors; the cases are ours, the answers are that module's",
        "go": _go("env", "GOVERSION").strip(),
        "command": "python tests/conformance/openyurt/generate/generate.py",
    }


def main() -> None:
    """Ask for each case, and write the file."""
    known = json.loads(gzip.decompress(FILE.read_bytes()))["cases"]
    inputs = [{name: case[name] for name in INPUTS if name in case} for case in known]
    answered = _go("run", ".", text="".join(json.dumps(one) + "\n" for one in inputs))
    cases = [json.loads(line) for line in answered.splitlines()]
    text = json.dumps({"origin": _origin(), "cases": cases}, separators=(",", ":"), sort_keys=True) + "\n"
    # Without a time and a name, so that the same cases are the same bytes.
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(cases)} cases, {sum('error' in one for one in cases)} of them errors")


if __name__ == "__main__":
    main()
