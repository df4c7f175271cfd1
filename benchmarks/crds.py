"""Verifying and unpacking a CRD tarball beside tarfile's extractall, and what memory it takes: `python benchmarks/crds.py`.

The two run in turns on a tarball shaped like a real release (33 entries), into new directories of one file system.
extractall looks at nothing, reads no digest and waits for no disk: the rows in between tell what each of that costs.
"No YAML, no fsync" is the floor of what verifies before it writes, and "no YAML" that of what is on disk afterwards.
The second table has the ways to know what a manifest calls itself, over those of the release alone: what libyaml does
alone, without the objects that tell Python of it, is the floor of every way that takes all of YAML.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))

from app.crds.archive.archive import unpack, verify
from app.crds.archive.limits import LIMITS, Limits
from app.crds.archive.yaml_head import read_head
from app.crds.archive.yaml_lines import KnownLines
from tests.crds.tarballs import build, members, release, small

ROUNDS = 40
MIB = 1024 * 1024
LARGE = Limits(download_bytes=128 * MIB, unpacked_bytes=256 * MIB)


def extractall(tarball: Path, into: Path) -> None:
    with tarfile.open(tarball) as opened:
        opened.extractall(into)


def milliseconds(call: Callable[[Path, Path], object], tarball: Path, root: Path) -> float:
    into = Path(tempfile.mkdtemp(dir=root))
    started = time.perf_counter()
    call(tarball, into)
    spent = time.perf_counter() - started
    shutil.rmtree(into)
    return spent * 1e3


def without_content(tarball: Path, into: Path) -> None:
    with (
        patch("app.crds.archive.content.Content.add"),
        patch("app.crds.archive.content.Content.finish", return_value=()),
    ):
        unpack(tarball, into)


def by_events(tarball: Path, into: Path) -> None:
    with patch("app.crds.archive.yaml_head.read_lines", return_value=None):
        unpack(tarball, into)


def without_disk(tarball: Path, into: Path) -> None:
    with patch("os.fsync"):
        unpack(tarball, into)


def without_either(tarball: Path, into: Path) -> None:
    with patch("os.fsync"):
        without_content(tarball, into)


def table(root: Path) -> None:
    tarball = root / "crds.tar.gz"
    tarball.write_bytes(release())
    print(f"{tarball.stat().st_size} bytes, 33 entries, medians of {ROUNDS} rounds in turns")
    ways: dict[str, Callable[[Path, Path], object]] = {
        "tarfile.extractall": extractall,
        "unpack, no YAML, no fsync": without_either,
        "unpack, no YAML": without_content,
        "unpack, no fsync": without_disk,
        "unpack": unpack,
        "unpack, YAML by libyaml's events": by_events,
        "verify alone": lambda tarball, _: verify(tarball, limits=LIMITS),
    }
    rows = [[milliseconds(call, tarball, root) for call in ways.values()] for _ in range(ROUNDS)]
    for index, name in enumerate(ways):
        ratio = statistics.median(row[index] / row[0] for row in rows)
        print(f"{name:34}{statistics.median(row[index] for row in rows):9.1f} ms{ratio:8.1f} x")


def heads() -> None:
    manifests = [body for name, body in members().items() if body is not None and name.startswith("crds/bases/")]
    print(
        f"\nheads of {len(manifests)} manifests, {sum(map(len, manifests))} bytes, CPU time, medians of {ROUNDS} rounds in turns"
    )

    def lines():
        known = KnownLines()
        for manifest in manifests:
            read_head(manifest, known)

    def each_alone():
        for manifest in manifests:
            read_head(manifest)

    def libyaml():
        for manifest in manifests:
            yaml.cyaml.CParser(manifest).raw_parse()

    def events():
        with patch("app.crds.archive.yaml_head.read_lines", return_value=None):
            lines()

    ways = {
        "by lines": lines,
        "by lines, each file alone": each_alone,
        "libyaml alone": libyaml,
        "libyaml's events": events,
    }
    rows = [[cpu_milliseconds(call) for call in ways.values()] for _ in range(ROUNDS)]
    for index, name in enumerate(ways):
        ratio = statistics.median(row[index] / row[0] for row in rows)
        print(f"{name:34}{statistics.median(row[index] for row in rows):9.1f} ms{ratio:8.1f} x")


def cpu_milliseconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1e3


def memory(root: Path) -> None:
    print("\npeak memory of a process that unpacks (its own 64 MiB limit raised), by size of the tarball")
    base = peak("from app.crds.archive.archive import unpack; from benchmarks.crds import LARGE")
    chance = random.Random(1)
    for size in (1, 16, 64):
        tarball = root / "large.tar.gz"
        files: dict[str, bytes | None] = {f"crds/{n}": chance.randbytes(MIB) for n in range(size)}
        tarball.write_bytes(build({**small(), **files}))
        into = Path(tempfile.mkdtemp(dir=root))
        used = peak(
            "from pathlib import Path; from app.crds.archive.archive import unpack; from benchmarks.crds import LARGE; "
            f"unpack(Path({str(tarball)!r}), Path({str(into)!r}), limits=LARGE)"
        )
        shutil.rmtree(into)
        print(f"{size:4} MiB {used - base:8.1f} MiB above the {base:.0f} MiB of an interpreter that has imported it")


def bomb() -> None:
    print("\na bomb: 1 GiB of zeros")
    with tempfile.NamedTemporaryFile() as file:
        packer = zlib.compressobj(9, wbits=31)
        for _ in range(1024):
            file.write(packer.compress(bytes(MIB)))
        file.write(packer.flush())
        file.flush()
        started = time.perf_counter()
        try:
            verify(Path(file.name))
        except Exception as error:  # noqa: BLE001 -- shown
            print(f"{(time.perf_counter() - started) * 1e3:.1f} ms: {error}")


def peak(code: str) -> float:
    """The most memory a new interpreter has held that ran the code, in MiB."""
    # Not getrusage: its peak takes in that of the process that started this one.
    show = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    return int(done.stdout.split()[-1]) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        table(Path(root))
        heads()
        memory(Path(root))
    bomb()


if __name__ == "__main__":
    main()
