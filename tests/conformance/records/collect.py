"""Makes `stories.jsonl.gz` and `stories.yaml` of the recording of a run: ``python -m … DIRECTORY``."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fleethook.cluster.registration.paths import VALIDATE_APP_DAEMON, VALIDATE_APP_SET, VALIDATE_OVERRIDER
from fleethook.cluster.store import key_of
from tests.serving import EXAMPLES

HERE = Path(__file__).parent
# Reviews of validation have objects as the apiserver stores them: with defaults and uid.
STORED = (VALIDATE_APP_DAEMON, VALIDATE_APP_SET, VALIDATE_OVERRIDER)


def read_lines(directory: Path) -> list[bytes]:
    """Return the lines of all files of a recording, with one header."""
    files = [gzip.decompress(path.read_bytes()).splitlines() for path in sorted(directory.glob("*.jsonl.gz"))]
    return [files[0][0], *(line for lines in files for line in lines[1:])]


def list_objects(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the last state of each object that was admitted."""
    records = [json.loads(line) for line in lines[1:]]
    admitted = [one for one in records if one["route"] in STORED and one["answer"]["response"]["allowed"]]
    written = [one["review"]["request"]["object"] for one in admitted]
    yield from {key_of(document): document for document in written}.values()


def write(directory: Path, name: str) -> list[bytes]:
    """Write one file of the recording in a directory, without a time stamp in gzip's header."""
    lines = read_lines(directory)
    (HERE / name).write_bytes(gzip.compress(b"\n".join([*lines, b""]), mtime=0))
    return lines


def main() -> None:
    lines = write(Path(sys.argv[1]), "stories.jsonl.gz")
    pools = list(yaml.safe_load_all((EXAMPLES / "nodepools.yaml").read_text()))
    (HERE / "stories.yaml").write_text(yaml.safe_dump_all([*pools, *list_objects(lines)], sort_keys=False))


if __name__ == "__main__":
    main()
