"""A replica of a fleet of a given size, and its leader: memory, CPU, and latency of reviews meanwhile.

    python -m benchmarks.engines.scale_server SUBJECTS POOLS [--edits SUBJECTS] [--rate N]

It prints one line of JSON for each stage. `scale_origin` replaces the apiserver, in its own process.
"""

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engines import scale_objects as objects
from benchmarks.engines.scale_connection import OriginConnection, origin_of
from benchmarks.engines.scale_objects import Size, Workloads
from fleethook.app import Fleethook, create_app
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.engines.overrider.controller.overrider_controller import OverriderController
from fleethook.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import settle_garbage_collector
from tests.asgi_client import call

DEPLOYMENTS = "/mutate-apps-v1-deployment"
REVIEWS_PER_SECOND = 200
SAMPLES = 200
"""Number of workloads whose reviews are measured."""
MIN_REVIEWS = 1_000
"""A stage that can be repeated is repeated until it has this many reviews: its p99 is then the tenth longest."""


def resident_mib() -> float:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


class Server:
    """The replica."""

    def __init__(self, size: Size, given: argparse.Namespace) -> None:
        self.size, self.given = size, given
        self.app: Fleethook = create_app(Settings(engines=frozenset({"overrider"})), log=None)
        self.connection: OriginConnection | None = None
        self.source: KubernetesSource | None = None
        self.bodies: list[bytes] = []
        self.latencies: list[float] = []
        self.slices: list[float] = []
        """CPU time between two turns of the event loop, at least a millisecond of wall time apart."""

    async def review(self, path: str, body: bytes) -> bytes:
        return (await call(self.app, path, body)).body

    async def load(self) -> dict[str, Any]:
        """Read all objects that rendering needs; return the memory, time and CPU of the replica."""
        gc.disable()
        empty, cpu, wall = resident_mib(), time.process_time(), time.perf_counter()
        self.source = KubernetesSource(RESOURCES, self.connection, self.app.store, absent_seconds=10.0)
        task = asyncio.create_task(self.source.run())
        await self.source.wait_synced()
        settle_garbage_collector()
        task.add_done_callback(lambda _: None)
        self.tasks = [task]
        return {
            "stage": "ready", "empty_mib": empty, "mib": resident_mib(), "seconds": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
        }  # fmt: skip

    async def review_all(self, workloads: Workloads) -> dict[str, Any]:
        """Compile the plan of every subject and pool, and choose the workloads whose reviews are measured."""
        engine: Any = self.app.engines["overrider"]
        cpu = time.process_time()
        for number in range(self.size.subjects):
            for pool in range(self.size.pools):
                engine.plans.plan(
                    YURT_APP_SET, *self.documents(number), kind="Deployment", pool=objects.pool_name(pool),
                    cluster="", store=self.app.store,
                )  # fmt: skip
                if pool % 10 == 0:
                    await asyncio.sleep(0)
        cpu = time.process_time() - cpu
        chosen = random.Random(7)
        for _ in range(SAMPLES):
            number, pool = chosen.randrange(self.size.subjects), chosen.randrange(self.size.pools)
            document = json.loads(workloads.text(number, pool))
            self.bodies.append(objects.update_review("Deployment", document, document))
        return {"stage": "serving", "mib": resident_mib(), "cpu": cpu}

    def documents(self, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        place = (objects.namespace_of(number), objects.subject_name(number))
        return (
            self.app.store.get("", YURT_APP_SET, *place), self.app.store.get("", YURT_APP_OVERRIDER, *place)
        )  # fmt: skip

    async def counts(self) -> dict[str, int]:
        assert self.connection is not None
        return json.loads(await self.connection.request("GET", "/counts"))

    # The leader.

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[OverriderController]:
        engine: Any = self.app.engines["overrider"]
        controller = OverriderController(
            self.connection, self.app.store, self.source, engine.plans, per_second=self.given.rate,
            worker=self.app.parts.worker,
        )  # fmt: skip
        task = asyncio.create_task(controller.run())
        try:
            yield controller
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def takeover(self) -> dict[str, Any]:
        """Measure takeovers; return the figures of the last one, with the latencies of all."""
        found = await self.first_pass("takeover")
        latencies, slices = self.latencies, self.slices
        while len(latencies) < MIN_REVIEWS:
            found = await self.first_pass("takeover")
            latencies, slices = latencies + self.latencies, slices + self.slices
        self.slices = slices
        return found | self.quantiles(latencies)

    async def first_pass(self, stage: str) -> dict[str, Any]:
        await self.counts()
        cpu, wall = time.process_time(), time.perf_counter()
        async with self.leading() as controller, self.probing() as latencies:
            self.latencies = latencies
            while (
                controller.reconciled < self.size.subjects
                or not controller.queue.idle
                or controller.handlers.resyncs < 1
            ):
                await asyncio.sleep(0.05)
            spent, took = time.process_time() - cpu, time.perf_counter() - wall
            found = {"stage": stage, "cpu": spent, "seconds": took, "touched": controller.workloads.client.touched}
            return found | {"mib": resident_mib(), "calls": await self.counts()} | self.quantiles(latencies)

    async def edit(self, subjects: int) -> dict[str, Any]:
        """Edit overriders and wait until the controller has touched all their workloads and written the statuses."""
        assert self.connection is not None
        async with self.leading() as controller:
            while (
                controller.reconciled < self.size.subjects
                or not controller.queue.idle
                or controller.handlers.resyncs < 1
            ):
                await asyncio.sleep(0.05)
            await self.counts()
            before, wanted = controller.workloads.client.touched, subjects * self.size.pools
            cpu, wall = time.process_time(), time.perf_counter()
            async with self.probing() as latencies:
                for number in range(subjects):
                    await self.connection.request("POST", f"/{number}/edit", body={"tag": "2.0.0"})
                while controller.workloads.client.touched - before < wanted or not controller.queue.idle:
                    await asyncio.sleep(0.05)
            spent, took = time.process_time() - cpu, time.perf_counter() - wall
            found = {
                "stage": "edit",
                "cpu": spent,
                "seconds": took,
                "touched": controller.workloads.client.touched - before,
            }
            return found | {"mib": resident_mib(), "calls": await self.counts()} | self.quantiles(latencies)

    async def idle(self, seconds: float) -> dict[str, Any]:
        async with self.probing() as latencies:
            await asyncio.sleep(seconds)
        return {"stage": "idle"} | self.quantiles(latencies)

    def quantiles(self, latencies: list[float]) -> dict[str, Any]:
        ordered, slices = sorted(latencies) or [0.0], sorted(self.slices) or [0.0]
        return {
            "reviews": len(latencies), "p50_ms": at(ordered, 0.5), "p99_ms": at(ordered, 0.99), "max_ms": at(ordered, 1.0),
            "slice_p99_ms": at(slices, 0.99), "slice_max_ms": at(slices, 1.0),
        }  # fmt: skip

    @contextlib.asynccontextmanager
    async def probing(self) -> AsyncIterator[list[float]]:
        """Send reviews at fixed times, independent of earlier answers; yield their latencies."""
        latencies: list[float] = []
        stopped = False

        async def ask(body: bytes, due: float) -> None:
            # The event loop's clock may be a millisecond ahead, so a review may start early.
            since = min(due, time.perf_counter())
            await call(self.app, DEPLOYMENTS, body)
            latencies.append(time.perf_counter() - since)

        async def run() -> None:
            due = time.perf_counter()
            asked: set[asyncio.Task[None]] = set()
            for body in itertools.cycle(self.bodies):
                due += 1 / REVIEWS_PER_SECOND
                # Connections do not wait for each other: all reviews that are due start in the same turn.
                if due > time.perf_counter():
                    await asyncio.sleep(due - time.perf_counter())
                if stopped:
                    break
                asked.add(asyncio.create_task(ask(body, due)))
            await asyncio.gather(*asked)

        async def watch() -> None:
            last = time.thread_time()
            while not stopped:
                await asyncio.sleep(0.001)
                last, before = time.thread_time(), last
                self.slices.append(last - before)

        self.slices = []
        tasks = [asyncio.create_task(run()), asyncio.create_task(watch())]
        try:
            yield latencies
        finally:
            stopped = True
            await asyncio.gather(*tasks)


def at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3


async def measure(given: argparse.Namespace) -> None:
    size = Size(given.subjects, given.pools)
    server = Server(size, given)
    async with origin_of(size, server.review) as server.connection:
        try:
            await stages(server, size, given)
        finally:
            for task in server.tasks:
                task.cancel()


async def stages(server: Server, size: Size, given: argparse.Namespace) -> None:
    say(await server.load())
    if given.leader_first:
        server.bodies = []
        say(await server.first_pass("first pass"))
        return
    say(await server.review_all(Workloads(size)))
    say(await server.idle(given.seconds))
    say(await server.first_pass("first pass"))
    say(await server.takeover())
    if given.edits:
        say(await server.edit(given.edits))


def say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", type=int)
    parser.add_argument("pools", type=int)
    parser.add_argument("--edits", type=int, default=0, help="number of overriders to edit")
    parser.add_argument("--rate", type=float, default=200.0, help="touched workloads per second")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of the idle stage")
    parser.add_argument(
        "--leader-first", action="store_true", help="measure only the first pass, without compiled plans"
    )
    uvloop.run(measure(parser.parse_args()))
