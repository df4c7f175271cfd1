"""Writes answers.json.gz: random scripts and gopher-lua's answers (needs Go)."""

import gzip
import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Final

from expressions import Expressions
from programs import Programs
from standard import StandardScripts

HERE: Final = Path(__file__).parent
SCRIPTS: Final = 2000
STANDARD_SCRIPTS: Final = 400
SEED: Final = 19
EXPRESSIONS_EACH: Final = 6

PRELUDE: Final = (HERE.parent / "prelude.lua").read_text()


def scripts() -> dict[str, str]:
    """Return the scripts by name."""
    random = Random(SEED)
    subjects = {**Expressions(random).subjects()}
    programs = Programs(random)
    drawn = {
        name: getattr(programs, name)
        for name in ("pairs", "ipairs", "length", "library", "sorting", "texts", "replicas")
    }
    names = [*subjects, *drawn]
    found = {}
    for number in range(SCRIPTS):
        name = names[number % len(names)]
        if name in subjects:
            lines = [f"try(function() out({subjects[name]()}) end)" for _ in range(EXPRESSIONS_EACH)]
            body = "\n".join(
                ("local a, b, c, n, s = 7, 2.5, '4', 100, 'text'", "local t = {3, 'b', 8, x = 0.1}", *lines)
            )
        else:
            body = f"local a = 1\ntry(function()\n{drawn[name]()}\nend)"
        found[f"{name}-{number:04}"] = body
    return found | dict(StandardScripts(Random(SEED)).draw(STANDARD_SCRIPTS))


def main() -> None:
    """Write the file."""
    bodies = scripts()
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
    (HERE.parent / "answers.json.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
