"""A process that forks fetching processes: cheap, because it has imported all modules and has no threads.

A line of JSON on stdin is a job, ``{"root", "url", "policy"}`` with ``"forever"`` or ``"die_at"``. The forked process prints its messages, each line with its pid first.
"""

import json
import os
import signal
import sys
from pathlib import Path

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.model.crd_tarball import Policy
from tests.engines.crds.fetching import bring


def say(what: object) -> None:
    # One write, so that lines of many processes do not mix.
    os.write(1, f"{os.getpid()} {json.dumps(what)}\n".encode())


CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.utime")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die_at(last: int) -> None:
    """Exit without cleanup before the call with number ``last``, from 0, that may change the disk."""
    calls = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal calls
        if event not in CHANGES and not (event == "open" and int(str(arguments[2])) & WRITING):
            return
        if calls == last:
            say("dies")
            os._exit(1)
        calls += 1

    sys.addaudithook(count)


def work(job: dict[str, str]) -> None:
    cache = Cache(Path(job["root"]))
    say("started")
    if "die_at" in job:
        die_at(int(job["die_at"]))
    got = bring(cache, job["url"], Policy(job["policy"]))
    while job.get("forever"):
        bring(cache, job["url"], Policy(job["policy"]))
    say([got.result, got.sha256])


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    for line in sys.stdin:
        if os.fork():
            continue
        try:
            work(json.loads(line))
        finally:
            os._exit(0)


if __name__ == "__main__":
    main()
