"""The console of a fleet of a given size: how long each page takes, and how long one slice holds the event loop.

    python -m benchmarks.engines.console_pages SUBJECTS POOLS

It prints one line of JSON for each step. `scale_origin` replaces the apiserver, in its own process.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import uvloop

from benchmarks.engines import scale_objects as objects
from benchmarks.engines.scale_connection import OriginConnection, origin_of
from benchmarks.engines.scale_objects import Size
from fleethook.cluster.followed_objects import Cluster
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import RESOURCES, WORKLOADS
from fleethook.cluster.store import Store
from fleethook.console.console_server import console_indexes, create_console
from fleethook.console.context import ConsoleContext
from fleethook.work.threads_and_gc import settle_garbage_collector
from tests.console.visitor import Page, Visitor

REPEATS: Final = 20
_PLACE: Final = f"namespace={objects.namespace_of(0)}&name={objects.subject_name(0)}"
MATRIX: Final = "/overriders"
SUBJECT: Final = f"/overriders?subject={objects.subject_name(0)}"
FILTERED: Final = "/overriders?pool=42"
OVERRIDER: Final = f"/overriders/overrider?{_PLACE}"
POOL: Final = f"/overriders/pool?{_PLACE}&subject=YurtAppSet&kind=Deployment&pool={objects.pool_name(0)}"
SEARCH: Final = f"/search?q={objects.pool_name(0)[:-1]}"
PAGES: Final = {
    "overview": "/", "matrix": MATRIX, "matrix of one subject": SUBJECT, "matrix of some pools": FILTERED,
    "pool": POOL, "overrider": OVERRIDER, "search": SEARCH,
}  # fmt: skip


async def refuse(path: str, _body: bytes) -> bytes:
    """Fail: `scale_origin` asks for a review only if its client changes a workload, which a console never does."""
    raise AssertionError(f"the console has changed a workload: {path}")


class Console:
    """The console, and the CPU time of each turn of its event loop."""

    def __init__(self, connection: OriginConnection) -> None:
        store = Store(console_indexes())
        self.source = KubernetesSource((*RESOURCES, *WORKLOADS), connection, store, absent_seconds=10.0)
        cluster = cast("Cluster", SimpleNamespace(connection=connection, source=self.source))
        self.context = ConsoleContext(store, cluster=cluster, command_source="--in-cluster")
        self.visitor = Visitor(create_console(self.context))
        self._slices: list[float] = []

    @contextlib.asynccontextmanager
    async def loaded(self) -> AsyncIterator[float]:
        """Read all objects as `follow_cluster` does; yield the seconds that it took."""
        wall = time.perf_counter()
        reading = asyncio.create_task(self.source.run())
        gc.disable()
        await self.source.wait_synced()
        settle_garbage_collector()
        try:
            yield time.perf_counter() - wall
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[list[float]]:
        """Yield a list that gets the CPU time of each slice, which all other requests wait for."""
        slices: list[float] = []

        async def watch() -> None:
            last = time.thread_time()
            while True:
                await asyncio.sleep(0.001)
                last, before = time.thread_time(), last
                slices.append(last - before)

        watching = asyncio.create_task(watch())
        try:
            yield slices
        finally:
            watching.cancel()

    async def measure(self, step: str, ask: Callable[[], Awaitable[Page]], *, times: int = 1) -> Page:
        """Print how long a page takes, and return the last one."""
        took: list[float] = []
        async with self.watched() as slices:
            for _ in range(times):
                wall = time.perf_counter()
                page = await ask()
                took.append(time.perf_counter() - wall)
                assert page.status == 200, page.text
        say(step, took, slices, bytes=len(page.body))
        return page


def say(step: str, took: list[float], slices: list[float], **more: Any) -> None:
    ordered = sorted(took)
    found = {"ms": ordered[len(ordered) // 2] * 1e3, "max_ms": ordered[-1] * 1e3, "slice_ms": max(slices) * 1e3}
    print(json.dumps({"step": step, **found, **more}), flush=True)


async def measure(size: Size) -> None:
    async with origin_of(size, refuse) as connection:
        console = Console(connection)
        async with console.loaded() as seconds:
            print(json.dumps({"step": "ready", "seconds": seconds}), flush=True)
            await visit(console)


async def visit(console: Console) -> None:
    """Ask for each page while findings are computed, then afterwards."""
    visitor = console.visitor
    await console.measure("first page", lambda: visitor.get(MATRIX))
    for name, address in PAGES.items():
        await console.measure(f"{name}, at first", lambda address=address: visitor.get(address), times=REPEATS)  # type: ignore[misc]
    wall = time.perf_counter()
    async with console.watched() as slices:
        while "being checked" in (await visitor.get(MATRIX)).text:
            await asyncio.sleep(0.2)
    say("findings", [time.perf_counter() - wall], slices)
    for name, address in PAGES.items():
        await console.measure(name, lambda address=address: visitor.get(address), times=REPEATS)  # type: ignore[misc]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", type=int)
    parser.add_argument("pools", type=int)
    given = parser.parse_args()
    uvloop.run(measure(Size(given.subjects, given.pools)))
