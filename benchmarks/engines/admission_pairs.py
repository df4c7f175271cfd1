"""Writes to the rows of the part `admission`, one after the other, so that each sample has a counterpart in every row."""

import contextlib
import copy
import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from benchmarks.engines.admission_load import Write, delete, put
from benchmarks.engines.admission_rows import Row, Running, make_creation
from benchmarks.harness.processes import children, cpu_microseconds
from fleethook.model.openyurt import REVISION_LABEL
from tests.e2e.fleet import ACCOUNT, NAMESPACE

OPERATIONS: Final = ("create", "update", "template")
WARMUP: Final = 10
"""Writes of each kind to each row before the first sample."""
LEAST_PAIRS: Final = 40
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
QUIET_SECONDS: Final = 0.001
QUIET_MICROSECONDS: Final = 60
"""CPU of idle programs in `QUIET_SECONDS`, at most."""
TRIES: Final = 12
"""Looks at the programs before the next write, if they never become idle."""
REACTION_SECONDS: Final = 2.0
"""Longer than the leader waits before it updates a status."""
_READS: Final = frozenset({"get", "list"})
_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_BACKGROUND: Final = frozenset({"leases", "tokenreviews", "subjectaccessreviews"})
"""Resources that fleethook reads and writes at regular times, without any workload."""


class Sample(NamedTuple):
    """One write."""

    milliseconds: float
    """From the first byte of the request to the last one of the answer."""
    cpu: float
    """Microseconds of CPU of kube-apiserver, until it and the server of the row are idle again."""
    hook: float
    """Microseconds of CPU of the server of the row."""


Samples = Mapping[str, Mapping[str, list[Sample]]]
"""The samples of each row by operation; those with the same index are pairs."""


class Found(NamedTuple):
    """The samples of the rows of one control plane, and the requests of fleethook for each write of a row."""

    samples: Samples
    reads: Mapping[str, float]
    writes: Mapping[str, float]


def measure_pairs(running: Running, pairs: int, *, seconds: float) -> Found:
    """Write to the rows in turn, in another order each time.

    A set is a creation in each row, then an update of the spec in each row, then an update from the template in each
    row, and the deletions, which are no samples. Programs are idle before each write, so that no write waits for the
    watch events of the one before.

    Args:
        running: The control plane.
        pairs: The largest number of sets.
        seconds: The time after which no further set begins, if there are `LEAST_PAIRS`. It matters on a busy machine.

    Raises:
        RuntimeError: kube-apiserver refused a write, or an annotation is missing.
    """
    writer = _Writer(running)
    samples: dict[str, dict[str, list[Sample]]] = {name: {key: [] for key in OPERATIONS} for name in running.rows}
    end = time.monotonic() + seconds
    with contextlib.closing(running.plane.api().connect()) as connection:
        for number in range(-WARMUP, pairs):
            if number >= LEAST_PAIRS and time.monotonic() > end:
                break
            if number == 0:
                time.sleep(REACTION_SECONDS)
                before = _count_requests(running)
            for operation, name, sample in writer.write_set(connection, number):
                if number >= 0:
                    samples[name][operation].append(sample)
    time.sleep(REACTION_SECONDS)
    sent = _count_requests(running) - before
    count = sum(map(len, samples[next(iter(samples))].values()))
    reads, writes = (
        {name: sent[row.world.namespace, kind] / count for name, row in running.rows.items()}
        for kind in ("reads", "writes")
    )
    return Found(samples, reads, writes)


class _Writer:
    """Writes the sets of workloads."""

    def __init__(self, running: Running) -> None:
        self._rows: Final = running.rows
        self._api: Final = running.plane.api()
        self._apiserver: Final = running.plane.process_id("kube-apiserver")
        self._pids: Final = {name: (pid, *children(pid)) for name, pid in running.pids.items()}
        self._order: Final = random.Random(0)

    def write_set(self, connection: http.client.HTTPSConnection, number: int) -> Iterator[tuple[str, str, Sample]]:
        """Write a set and delete its workloads; yield operation, row and sample of each write."""
        given = {name: make_creation(row, "pairs", number) for name, row in self._rows.items()}
        stored: dict[str, dict[str, Any]] = {}
        for operation in OPERATIONS:
            names = list(self._rows)
            self._order.shuffle(names)
            for name in names:
                row = self._rows[name]
                write = _make_write(operation, row, given[name], stored.get(name))
                sample, stored[name] = self._write(connection, row, write)
                yield operation, name, sample
        delete(self._api, connection, stored.values())
        self._wait_until_idle("fleethook")

    def _write(self, connection: http.client.HTTPSConnection, row: Row, write: Write) -> tuple[Sample, dict[str, Any]]:
        method, path, body = write
        text = json.dumps(body).encode()
        before = self._cpu(row.server)
        began = time.perf_counter()
        connection.request(method, path, body=text, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        milliseconds = (time.perf_counter() - began) * 1e3
        apiserver, hook = (now - then for now, then in zip(self._wait_until_idle(row.server), before, strict=True))
        made = json.loads(answer)
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status}: {made}")
        if row.mark and row.mark not in made["metadata"].get("annotations", {}):
            raise RuntimeError(f"{method} {path}: the annotation {row.mark} is missing")
        return Sample(milliseconds, apiserver, hook), made

    def _cpu(self, server: str) -> tuple[float, float]:
        return cpu_microseconds(self._apiserver), sum(map(cpu_microseconds, self._pids.get(server, ())))

    def _wait_until_idle(self, server: str) -> tuple[float, float]:
        """Wait until kube-apiserver and a server are idle; return their CPU."""
        found = self._cpu(server)
        for _ in range(TRIES):
            time.sleep(QUIET_SECONDS)
            before, found = found, self._cpu(server)
            if sum(found) - sum(before) < QUIET_MICROSECONDS:
                break
        return found


def _make_write(operation: str, row: Row, created: Write, stored: dict[str, Any] | None) -> Write:
    if stored is None:
        return created
    if operation == "template":
        # As OpenYurt's controllers do after an edit of their template: without the overrides.
        stored["metadata"]["labels"][REVISION_LABEL] = "w-2"
        return put(stored, created[2]["spec"])
    spec = {**copy.deepcopy(stored["spec"]), "minReadySeconds": 1}
    if not row.settled:
        spec["template"]["spec"]["containers"][0]["image"] = "edited:1"
    return put(stored, spec)


def _count_requests(running: Running) -> Counter[tuple[str, str]]:
    """Return the requests of fleethook until now by namespace, and whether they are ``reads`` or ``writes``."""
    found = Counter[tuple[str, str]]()
    for line in (running.plane.directory / "audit.log").read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef", {})
        if event["user"]["username"] == USER and about.get("resource") not in _BACKGROUND:
            kind = "reads" if event["verb"] in _READS else "writes" if event["verb"] in _WRITES else "others"
            found[about.get("namespace", ""), kind] += 1
    return found
