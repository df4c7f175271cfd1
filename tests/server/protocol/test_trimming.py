import asyncio
import subprocess
import sys

from fleethook.server.protocol.trimming import Trimmer
from tests.waiting import until

MI = 1 << 20


async def test_a_burst_is_trimmed_once() -> None:
    trimmed: list[int] = []
    trimmer = Trimmer(lambda: trimmed.append(1), seconds=0)
    for _ in range(100):
        trimmer.release(MI)
    await until(lambda: trimmed)
    await asyncio.sleep(0)
    assert trimmed == [1]
    trimmer.release(15 * MI)
    await asyncio.sleep(0)
    trimmer.release(MI)
    await until(lambda: len(trimmed) == 2)


async def test_small_requests_are_not_trimmed() -> None:
    trimmer = Trimmer(lambda: 1 / 0, seconds=0)  # type: ignore[arg-type, return-value]
    trimmer.release(15 * MI)
    await asyncio.sleep(0)


async def test_nothing_is_trimmed_without_support_of_the_c_library() -> None:
    Trimmer(None, seconds=0).release(100 * MI)


HOLES = """
import sys
from pathlib import Path
from fleethook.server.protocol.trimming import find_trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

trim = find_trim()
if trim is None:
    sys.exit(77)
kept = [bytearray(100_000) for _ in range(1000)]
before = resident()
del kept[:-1]
freed = resident()
trim()
sys.exit(0 if freed - resident() > 50_000_000 else f"{before} {freed} {resident()}")
"""


LARGE = """
import ctypes, sys
from pathlib import Path
from fleethook.server.protocol.trimming import find_trim, tune_allocator

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if find_trim() is None:
    sys.exit(77)
tune_allocator()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def take(size):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    return block

# By default, after a block of 30 MiB is freed, glibc takes later blocks from the heap.
libc.free(take(30 << 20))
block, after = take(24 << 20), take(100_000)
before = resident()
libc.free(block)
sys.exit(0 if before - resident() > 20_000_000 else f"{before} {resident()}")
"""


def test_a_large_block_goes_back_when_it_is_freed() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 77), done.stderr


def test_free_memory_below_used_memory_goes_back() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 77), done.stderr
