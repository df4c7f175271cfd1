"""Writes gopher-lua's answers into answers.json.gz again, for the scripts of that file (needs Go)."""

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
FILE: Final = HERE.parent / "answers.json.gz"
PRELUDE: Final = (HERE.parent / "prelude.lua").read_text()


def main() -> None:
    """Run each script, and write the file."""
    bodies = {case["id"]: case["script"] for case in json.loads(gzip.decompress(FILE.read_bytes()))}
    asked = json.dumps([{"name": name, "script": f"{PRELUDE}\n{body}\nreturn lines"} for name, body in bodies.items()])
    told = subprocess.run(
        ["go", "run", "."],
        cwd=HERE,
        input=asked.encode(),
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "TZ": "UTC"},
    ).stdout
    answers = json.loads(told)
    cases = [{"id": name, "script": body, "answer": answers[name]} for name, body in bodies.items()]
    text = json.dumps(cases, ensure_ascii=False, indent=0).encode()
    FILE.write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
