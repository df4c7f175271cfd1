"""Creates and updates Deployments through kube-apiserver, one request after the other."""

import contextlib
import http.client
import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from benchmarks.engines.admission_planes import POOLS, Prepared
from benchmarks.harness.load import Figures
from benchmarks.harness.processes import cpu_seconds, proportional_mib
from tests.e2e.cluster import Api, decode
from tests.e2e.policies import workloads_path

T = TypeVar("T")
WARMUP: Final = 10
"""Requests before each turn: the caches of the cores hold data of another kube-apiserver."""
Write = tuple[str, str, dict[str, Any]]
"""Method, path and body."""


class Writer:
    """Writes to one control plane over one connection."""

    def __init__(self, prepared: Prepared, requests: int) -> None:
        """Create a writer of ``requests`` creations, and as many updates, in each turn."""
        self._prepared: Final = prepared
        self._requests: Final = requests
        self._turns: Final = itertools.count()
        self._api: Final = prepared.plane.api()
        self._pid: Final = prepared.plane.process_id("kube-apiserver")

    def measure(self) -> Figures:
        """Create Deployments, update them, and delete them, which is not measured.

        Returns:
            Milliseconds (``_p50_ms``, ``_p99_ms``) and microseconds of CPU of kube-apiserver for each request
            (``_cpu_us``), of ``create``, ``update`` (of a member that no overrider sets) and ``template`` (an update
            with the template as OpenYurt's controllers write it); then its memory (``memory_mib``).

        Raises:
            RuntimeError: kube-apiserver refused a write, or the overrides are missing.
        """
        turn = next(self._turns)
        with contextlib.closing(self._api.connect()) as connection:
            warm = self._write(connection, self._creations(f"{turn}-warm", WARMUP))[1]
            delete(self._api, connection, warm)
            given = list(self._creations(str(turn), self._requests))
            created, stored = self._timed("create", connection, given)
            updated, stored = self._timed("update", connection, map(_update, stored))
            bare = [body["spec"] for _, _, body in given]
            reset, stored = self._timed("template", connection, map(put, stored, bare))
            delete(self._api, connection, stored)
        return {**created, **updated, **reset, "memory_mib": proportional_mib([self._pid])}

    def _creations(self, turn: str, count: int) -> Iterator[Write]:
        for number, world in zip(
            range(count), itertools.cycle(choose_evenly(self._prepared.worlds, count)), strict=False
        ):
            document = world.bare(POOLS[number % len(POOLS)])
            document["metadata"]["name"] = f"w-{turn}-{number}"
            document["metadata"].setdefault("annotations", {})["bench"] = turn
            yield "POST", workloads_path(document), document

    def _timed(
        self, operation: str, connection: http.client.HTTPSConnection, writes: Iterable[Write]
    ) -> tuple[Figures, list[dict[str, Any]]]:
        given = list(writes)
        before = cpu_seconds(self._pid)
        seconds, stored = self._write(connection, given)
        used = cpu_seconds(self._pid) - before
        return {f"{operation}_{key}": value for key, value in summarize(seconds, used).items()}, stored

    def _write(
        self, connection: http.client.HTTPSConnection, writes: Iterable[Write]
    ) -> tuple[list[float], list[dict[str, Any]]]:
        return send(self._api, connection, writes, mark=self._prepared.mark)


def send(
    api: Api, connection: http.client.HTTPSConnection, writes: Iterable[Write], *, mark: str
) -> tuple[list[float], list[dict[str, Any]]]:
    """Send writes one after the other; return the seconds of each one, and the stored objects.

    Raises:
        RuntimeError: kube-apiserver refused a write, or an object lacks the annotation ``mark``.
    """
    seconds, stored = [], []
    for method, path, body in writes:
        began = time.perf_counter()
        status, answer, _ = decode(api.send(connection, method, path, body))
        seconds.append(time.perf_counter() - began)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status}: {answer}")
        if mark and mark not in answer["metadata"].get("annotations", {}):
            raise RuntimeError(f"{method} {path}: the annotation {mark} is missing")
        stored.append(answer)
    return seconds, stored


def delete(api: Api, connection: http.client.HTTPSConnection, stored: Iterable[dict[str, Any]]) -> None:
    for document in stored:
        path = f"{workloads_path(document)}/{document['metadata']['name']}"
        decode(api.send(connection, "DELETE", path))


def _update(stored: dict[str, Any]) -> Write:
    """Return the update of a member that no overrider sets."""
    return put(stored, {**stored["spec"], "minReadySeconds": 1})


def put(stored: dict[str, Any], spec: dict[str, Any]) -> Write:
    """Return the update of a spec."""
    document = {**stored, "spec": spec}
    # Another controller may have written the status or an annotation since.
    document["metadata"] = {name: one for name, one in stored["metadata"].items() if name != "resourceVersion"}
    return "PUT", f"{workloads_path(document)}/{document['metadata']['name']}", document


def summarize(seconds: Sequence[float], cpu: float) -> Figures:
    """Return the median and the 99th percentile in milliseconds, and the CPU of each request in microseconds.

    Args:
        seconds: The duration of each request, of two at least.
        cpu: Seconds of CPU of kube-apiserver during all of them.
    """
    hundredths = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50_ms": hundredths[49] * 1e3, "p99_ms": hundredths[98] * 1e3, "cpu_us": cpu / len(seconds) * 1e6}


def choose_evenly(worlds: Sequence[T], count: int) -> list[T]:
    """Return at least ``count`` worlds at equal distances, from the first one on, or all if there are fewer."""
    step = max(1, len(worlds) // count)
    return list(worlds[::step])
