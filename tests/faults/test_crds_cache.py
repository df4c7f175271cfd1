"""The cache under faults of processes and disks: killed processes, many processes, full and read-only disks, locks.

No kill leaves an unusable entry.
"""

import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.fetching import ALWAYS, NEVER, bring
from tests.engines.crds.origin import Answer, Asked, Connection, serving, tarball
from tests.engines.crds.tarballs import build, members, release, small
from tests.waiting import NET, wait_for

ROOT = Path(__file__).parents[2]
KILLS = 200
PROCESSES = 10


class Workers:
    """Fetching processes, and the process that forks them."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.crds_worker"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def start(self, **job: object) -> None:
        self.stdin.write(json.dumps(job) + "\n")
        self.stdin.flush()

    def read_message(self) -> tuple[int, object]:
        pid, _, message = self.stdout.readline().partition(" ")
        return int(pid), json.loads(message)


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.stdin.close()
    made.process.wait(NET)
    made.stdout.close()


def serve_in_turn(*tarballs: bytes) -> Answer:
    """Return an origin whose tarball changes with each request."""
    lock, asked = threading.Lock(), [0]

    def answer(request: Asked, connection: Connection) -> None:
        with lock:
            asked[0] += 1
            now = asked[0]
        tarball(tarballs[now % len(tarballs)], etag=f'"{now}"', last_modified=None)(request, connection)

    return answer


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_no_kill_at_any_point_leaves_an_entry_that_cannot_be_used(workers: Workers, tmp_path: Path) -> None:
    cache, chance = Cache(tmp_path), random.Random(8)
    with serving(serve_in_turn(build(small()), release(properties=1))) as origin:
        key = bring(cache, origin.url, ALWAYS).key
        started = time.monotonic()
        bring(cache, origin.url, ALWAYS)
        a_fetch = time.monotonic() - started
        unusable, replaced, seen = [], 0, ""
        for kill in range(KILLS):
            requests = len(origin.asked) + chance.randrange(4)
            workers.start(root=str(tmp_path), url=origin.url, policy="Always", forever=True)
            pid, _ = workers.read_message()
            # After some fetches, in the middle of one, on machines of any speed.
            while len(origin.asked) < requests:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, a_fetch))
            os.kill(pid, 9)
            wait_for(lambda pid=pid: is_gone(pid), what="the killed process is gone")
            # Between its two renames, a killed process leaves no entry: a miss, never a mixture.
            if os.path.lexists(cache.path(key)) and bring(cache, origin.url, NEVER).result != "cached":
                unusable.append(kill)
            if (entry := cache.entry(key)) is not None and entry.record.sha256 + entry.record.etag != seen:
                seen, replaced = entry.record.sha256 + entry.record.etag, replaced + 1
        assert unusable == []
        # A worker that sends a second request has replaced the entry, as about half of them do.
        assert replaced > KILLS // 4
        assert bring(cache, origin.url, ALWAYS).result == "downloaded"


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "refresh"])
def test_no_death_before_any_call_that_changes_the_disk_leaves_a_broken_entry(
    workers: Workers, tmp_path: Path, *, cold: bool
) -> None:
    deaths = misses = 0
    with serving(serve_in_turn(build(small()), release(properties=1))) as origin:
        while True:
            root = tmp_path / str(deaths)
            cache, key = Cache(root), TarballSource(origin.url).key
            if not cold:
                bring(cache, origin.url)
            workers.start(root=str(root), url=origin.url, policy="Always", die_at=deaths)
            pid, _ = workers.read_message()
            pid, message = workers.read_message()
            if message != "dies":
                break
            wait_for(lambda pid=pid: is_gone(pid), what="the process is gone")
            deaths += 1
            if cache.path(key).exists():
                assert bring(cache, origin.url, NEVER).result == "cached"
            else:
                misses += 1
            assert bring(cache, origin.url, ALWAYS).result == "downloaded"
    assert deaths > 20
    # A refresh moves the former entry away and the new one into its place.
    assert cold or misses <= 1


def test_ten_processes_on_a_cold_cache_end_with_one_complete_entry(workers: Workers, tmp_path: Path) -> None:
    with serving(tarball(release())) as origin:
        for _ in range(PROCESSES):
            workers.start(root=str(tmp_path), url=origin.url, policy="IfNotPresent")
        messages = [workers.read_message()[1] for _ in range(2 * PROCESSES)]
    results = [message for message in messages if message != "started"]
    assert {result for result, _ in results} <= {"cached", "downloaded"}
    assert len({sha256 for _, sha256 in results}) == 1
    files = {name for name, body in members().items() if body is not None}
    path = Cache(tmp_path).path(TarballSource(origin.url).key)
    assert {str(file.relative_to(path)) for file in (path / "crds").rglob("*") if file.is_file()} == files
    assert list(path.parent.glob(".staging-*")) == []


def test_a_full_disk_and_a_read_only_one_keep_the_entry(tmp_path: Path) -> None:
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    with serving(serve_in_turn(release(), release(properties=43))) as origin:
        command = [*namespace, sys.executable, "-m", "tests.faults.crds_full_disk", str(tmp_path), origin.url]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=NET, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "first": "downloaded",
        "full": "DISK",
        "left": [],
        "kept": True,
        "roomy": "downloaded",
        "read_only": ["cached", "cached", "DISK"],
    }


LARGER = release(properties=1)


@pytest.mark.parametrize("most", [0, 1, 1_000], ids=["nothing", "a-byte", "but-the-tree"])
def test_the_entry_stays_if_no_file_can_grow(tmp_path: Path, most: int) -> None:
    cache = Cache(tmp_path)
    with serving(serve_in_turn(LARGER, build(small()))) as origin:
        before = bring(cache, origin.url)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(CRDsError) as caught:
                bring(cache, origin.url, ALWAYS)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.exit is Exit.DISK
    assert cache.entry(before.key) is not None
    assert list(cache.directory.glob(".staging-*")) == []


@pytest.mark.parametrize("year", [1971, 2200])
def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, year: int) -> None:
    jumped = Cache(tmp_path, clock=lambda: datetime(year, 1, 1, tzinfo=UTC))
    with serving(tarball(build(small()))) as origin:
        bring(Cache(tmp_path), origin.url)
        assert bring(jumped, origin.url).result == "cached"
        assert bring(jumped, origin.url, ALWAYS).result == "revalidated"
        assert bring(Cache(tmp_path), origin.url, ALWAYS).result == "revalidated"
        assert bring(Cache(tmp_path), origin.url).result == "cached"
        assert len(origin.asked) == 3


@pytest.mark.parametrize("part", [".", "crds.tar.gz"])
def test_files_of_another_user_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    cache = Cache(tmp_path)
    with serving(tarball(build(small()))) as origin:
        path = bring(cache, origin.url).path
        if (uid := os.geteuid()) == 0:
            os.chown(path / part, 12345, 12345)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
        with pytest.raises(CRDsError) as caught:
            bring(cache, origin.url)
        assert len(origin.asked) == 1
    assert caught.value.exit is Exit.DISK
    assert "belongs to user" in str(caught.value)
