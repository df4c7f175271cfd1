"""Writes answers.json.gz: texts, and the objects that kubectl reads in them (needs Go)."""

import gzip
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
RANDOM_SCALARS: Final = 2_000
SEED: Final = 36
CHARACTERS: Final = "0011289+-._eExXoObBfFnNyYTtaiI~"
HEAD: Final = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"
JSON: Final = '{"apiVersion":"v1","kind":"A","metadata":{"name":"%s"}}'
# The objects that texts.json abbreviates in streams.
OBJECTS: Final = {
    **{f"<{name}>": JSON % name.lower() for name in "ABC"},
    "<X>": HEAD,
    "<Y>": HEAD.replace("{name: a}", "{name: b}"),
}


def list_texts() -> Iterator[str]:
    """Yield the texts; the same ones each time."""
    found = json.loads((HERE / "texts.json").read_text())
    draw = random.Random(SEED)
    scalars = ("".join(draw.choices(CHARACTERS, k=draw.randint(1, 7))) for _ in range(RANDOM_SCALARS))
    for value in (*found["words"], *found["values"], *scalars):
        yield f"{HEAD}v: {value}\n"
    for value in found["json"]:
        yield f'{(JSON % "a")[:-1]},"v":{value}}}'
    for stream in found["streams"]:
        text = stream
        for name, content in OBJECTS.items():
            text = text.replace(name, content)
        yield text


def main() -> None:
    """Write the file."""
    asked = json.dumps([*dict.fromkeys(list_texts())])
    told = subprocess.run(["go", "run", "."], cwd=HERE, input=asked.encode(), stdout=subprocess.PIPE, check=True).stdout
    lines = [json.dumps(one, ensure_ascii=False) for one in json.loads(told)]
    (HERE.parent / "answers.json.gz").write_bytes(gzip.compress(f"[{','.join(lines)}]".encode(), mtime=0))


if __name__ == "__main__":
    main()
