"""CRD tarballs: verification and unpacking beside tarfile's extractall, a cache hit, and memory by size."""

import functools
import random
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.crds.archive.archive import verify
from app.crds.cache.cache import Cache
from app.crds.cache.metadata import TARBALL
from app.crds.failures import CRDsError
from app.crds.fetch import fetch
from app.crds.source import Policy, Source
from benchmarks.engines.measure import Measured, cpu_us, pin_to_core, text
from benchmarks.engines.tarballs import EXTRACTALL, MIB, UNPACK, WAYS, Way
from benchmarks.harness.processes import output
from benchmarks.harness.rounds import spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from tests.crds.tarballs import build, release, small

TIMES = 8
"""Turns for each round: one turn is short, and its time depends on the disk."""
SIZES = (1, 16, 64)
URL = "http://local/crds.tar.gz"

ABOUT = """A tarball shaped like a real release ({size:,} bytes, 33 entries) is unpacked into new directories of one file system; wall time in ms.
`extractall` checks nothing, computes no digest and does not call fsync. The rows between show the cost of each. *No YAML, no fsync* is the floor
of a verification before writing, *no YAML* the floor of an entry that is safely on disk."""
CACHE = "A request for a cached entry, in µs of CPU. Each hit hashes the tarball and compares the tree with it:"
MEMORY = """Peak memory of a process that unpacks a tarball (with its limit of 64 MiB raised), above the {base:.0f} MiB of an interpreter with
the same imports:"""
BOMB = "A decompression bomb, 1 GiB of zeros in {size:.1f} MiB, is refused after {ms:.1f} ms: {said}."


def run(context: Context) -> Section:
    """Run the measurements one after the other; within a table the variants take turns."""
    with pin_to_core(context.server_core):
        unpacking, size = _measure_unpacking(context)
        cache = _measure_cache(context)
    memory, bomb = _measure_memory(context), _measure_bomb(context)
    parts = (
        ABOUT.format(size=size), _table(unpacking, EXTRACTALL, "of extractall"),
        CACHE, _table(cache, "a hit", ""), *_memory_text(memory), BOMB.format(**bomb),
    )  # fmt: skip
    figures = {
        "unpacking ms": unpacking.figures(), "unpack : extractall": unpacking.ratio(UNPACK, EXTRACTALL)._asdict(),
        "cache us": cache.figures(), "memory MiB": memory, "bomb": bomb,
    }  # fmt: skip
    return Section("CRD tarballs", "\n\n".join(parts), figures)


def _turns(ways: dict[str, Callable[[], float]], count: int) -> Measured:
    measured = Measured()
    for _ in range(count):
        for name, way in ways.items():
            measured.add(name, way())
    return measured


def _measure_unpacking(context: Context) -> tuple[Measured, int]:
    tarball = context.scratch / "crds.tar.gz"
    tarball.write_bytes(release())
    ways = {name: functools.partial(_milliseconds, way, tarball, context.scratch) for name, way in WAYS.items()}
    for way in ways.values():
        way()
    return _turns(ways, context.rounds * TIMES), tarball.stat().st_size


def _milliseconds(way: Way, tarball: Path, root: Path) -> float:
    into = Path(tempfile.mkdtemp(dir=root))
    started = time.perf_counter()
    way(tarball, into)
    spent = time.perf_counter() - started
    shutil.rmtree(into)
    return spent * 1e3


def _measure_cache(context: Context) -> Measured:
    cache, source = Cache(context.scratch / "cache"), Source(URL)
    place = cache.path(source.key)
    place.mkdir(parents=True)
    (place / TARBALL).write_bytes(release())
    assert fetch(cache, source, Policy.NEVER).result == "adopted"
    assert fetch(cache, source, Policy.NEVER).result == "cached"
    ways: dict[str, Callable[[], Any]] = {
        "a hit": lambda: fetch(cache, source, Policy.IF_NOT_PRESENT),
    }
    return _turns({name: functools.partial(cpu_us, way) for name, way in ways.items()}, context.rounds)


def _measure_memory(context: Context) -> dict[str, float]:
    imports = "from pathlib import Path; from app.crds.archive.archive import unpack; from benchmarks.engines.tarballs import LARGE"
    found = {"": _peak(imports, context.server_core)}
    chance = random.Random(1)
    for size in SIZES:
        tarball = context.scratch / "large.tar.gz"
        files: dict[str, bytes | None] = {f"crds/{number}": chance.randbytes(MIB) for number in range(size)}
        tarball.write_bytes(build({**small(), **files}))
        into = Path(tempfile.mkdtemp(dir=context.scratch))
        code = f"{imports}; unpack(Path({str(tarball)!r}), Path({str(into)!r}), limits=LARGE)"
        found[f"{size} MiB"] = _peak(code, context.server_core)
        shutil.rmtree(into)
    return found


def _peak(code: str, core: int) -> float:
    """Return the peak memory of a new interpreter that runs the code, in MiB."""
    # Not getrusage: its peak includes that of the parent process before exec.
    show = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    return int(output([sys.executable, "-c", f"{code}\n{show}"], cores=[core]).split()[-1]) / 1024


def _memory_text(memory: dict[str, float]) -> tuple[str, str]:
    base = memory[""]
    rows = [(size, f"{peak - base:.1f}") for size, peak in memory.items() if size]
    return MEMORY.format(base=base), table(("tarball", "MiB"), rows)


def _measure_bomb(context: Context) -> dict[str, Any]:
    path, packer = context.scratch / "bomb.tar.gz", zlib.compressobj(9, wbits=31)
    path.write_bytes(b"".join([*(packer.compress(bytes(MIB)) for _ in range(1024)), packer.flush()]))
    started = time.perf_counter()
    try:
        verify(path)
    except CRDsError as error:
        said = str(error)
    else:
        raise AssertionError("the decompression bomb was not refused")
    return {"size": path.stat().st_size / MIB, "ms": (time.perf_counter() - started) * 1e3, "said": said}


def _table(measured: Measured, base: str, title: str) -> str:
    rows = [
        (name, text(spread(values)), "" if name == base else text(measured.ratio(name, base)))
        for name, values in measured.items()
    ]
    return table(("", "median (range)", title), rows)
