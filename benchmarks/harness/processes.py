"""Programs pinned to cores, and ended by their process id."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import ROOT

_SERVING = re.compile(r"serv(?:es|ing) on (?:https://\S*:)?(\d+)$")


class Running(NamedTuple):
    """A server that accepts connections."""

    process: "subprocess.Popen[str]"
    port: int

    @property
    def pids(self) -> tuple[int, ...]:
        """The serving processes: the children, or the process itself if it has none."""
        return children(self.process.pid) or (self.process.pid,)


def children(pid: int) -> tuple[int, ...]:
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@contextlib.contextmanager
def serving(command: Sequence[str | Path], *, cores: Collection[int], processes: int = 1) -> Iterator[Running]:
    """Start a server on ``cores``, wait until each of its processes prints ``serving on PORT``, and end it afterwards.

    Its log goes to /dev/null, so that the measurement includes the writes.
    """
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip
    try:
        ports = [_port(process) for _ in range(processes)]
        yield Running(process, ports[0])
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout
        process.stdout.close()


def _port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout
    for line in process.stdout:
        if found := _SERVING.search(line.rstrip()):
            return int(found[1])
    raise RuntimeError(f"did not start: {process.args!r}")


def output(command: Sequence[str | Path], *, cores: Collection[int]) -> str:
    """Run a program on ``cores`` and return its output; raises RuntimeError with the end of the output if it fails."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=ROOT,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command!r} failed: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def output_within(command: Sequence[str | Path], *, cores: Collection[int], seconds: float) -> tuple[str, bool]:
    """Run a program and return its output, and whether it ended within ``seconds``; raises as `output` does.

    A program that takes longer is killed, with all programs that it started.
    """
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        preexec_fn=lambda: os.sched_setaffinity(0, cores), start_new_session=True,
    )  # fmt: skip
    try:
        printed, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], False
    if process.returncode:
        raise RuntimeError(f"{command!r} failed: {(printed + errors)[-2000:]}")
    return printed, True


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_microseconds(pid: int) -> float:
    """Return the CPU of all threads of a process, with the resolution of the scheduler; `cpu_seconds` has steps of 10 ms.

    The id of the clock is that of clock_getcpuclockid(3).
    """
    return time.clock_gettime(~pid << 3 | 2) * 1e6
