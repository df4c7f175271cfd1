"""Renders from a store that is late: the leader corrects each, and no pod template is stored more often than necessary.

A replica answers the reviews of an apiserver in memory. Its watches and its reads take some milliseconds of a clock that
the test advances, so the order of events does not depend on the machine. docs/explanation/guarantees.md lists the
renders that are possible from an older store.
"""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.overrider.admission.fresh_read_requests_and_waits import FreshReads
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.model.gvk import GroupKind
from fleethook.patch import apply, merge_patch
from fleethook.work.queue import sleep
from fleethook.work.threads_and_gc import Worker
from tests.builders import container, entry, image, mutate_workload, node_pool, patch, rendered, request
from tests.engines.overrider.apiserver import WORKLOAD_KINDS, Apiserver, is_workload
from tests.engines.overrider.running import Fleet
from tests.waiting import NET
from tests.work.clock import FakeClock

REVISION = "apps.openyurt.io/controller-revision-hash"
TO_2, TO_3 = (entry("hangzhou", items=[image("nginx", claim)]) for claim in ("mirror/nginx:2.0", "mirror/nginx:3.0"))
EAST = entry(selector={"matchLabels": {"region": "east"}}, items=[image("nginx", "mirror/nginx:4.0")])
CONTAINER = "/spec/template/spec/containers/0"
SUBJECT = ObjectKey("", GroupKind("apps.openyurt.io", "YurtAppSet"), "default", "demo")
Document = dict[str, Any]


class LateReader:
    """The connection of a process, with a delay of each answer and of each event."""

    def __init__(self, server: Apiserver, clock: FakeClock, milliseconds: int) -> None:
        self._server, self._clock = server, clock
        self.seconds = milliseconds / 1000
        self.reads: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        self.reads.append(path)
        await sleep(self._clock, self.seconds / 2)
        answer = await self._server.request(method, path, **rest)
        await sleep(self._clock, self.seconds / 2)
        return answer

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Mapping[str, str], idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        late: asyncio.Queue[bytes] = asyncio.Queue()

        async def delay(lines: AsyncIterator[bytes]) -> None:
            async for line in lines:
                self._clock.call_at(self._clock.time() + self.seconds, late.put_nowait, line)

        async def each() -> AsyncIterator[bytes]:
            while True:
                yield await late.get()

        async with self._server.lines(path, query=query, idle=idle) as lines:
            task = asyncio.create_task(delay(lines))
            try:
                yield each()
            finally:
                task.cancel()


class World(Fleet):
    """A fleet whose reviews a late replica answers."""

    def __init__(self, milliseconds: int, *, late_leader: bool = False) -> None:
        super().__init__()
        self.server = self.api = Reviewed(self.objects, self.plans)
        self.api.decide = self._admit
        self.reader = LateReader(self.server, self.clock, milliseconds)
        self.store, self._of_replica = Store([OVERRIDERS_BY_SUBJECT]), PlanCache()
        self.replica = self._follow(self.reader, self.store)
        of_leader = LateReader(self.server, self.clock, milliseconds) if late_leader else self.server
        self.source = self._follow(of_leader, self.objects)
        self._reads = FreshReads(self.store, self._of_replica, self.replica, Worker())

    def _follow(self, reader: Any, store: Store) -> KubernetesSource:
        return KubernetesSource(RESOURCES, reader, store, absent_seconds=600.0, sleep=self._sleep)

    async def _admit(self, before: Document | None, after: Document) -> Document:
        asked = request(after, "UPDATE" if before else "CREATE", before)
        if (work := self._reads.ensure(asked)) is not None:
            await work
        answer = mutate_workload(asked, store=self.store, plans=self._of_replica)
        assert answer.allowed, answer.message
        return dict(apply(after, answer.patch))

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.replica.run())
        try:
            await self.wait_for(lambda: self.replica.synced)
            async with self.leader():
                await self.wait(2)
                yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def pause(self, milliseconds: int) -> None:
        await self.wait(milliseconds / 1000)

    async def finish(self, work: Any) -> None:
        """Advance the clock until some work is done."""
        task = asyncio.ensure_future(work)
        await self.settle()
        while not task.done():
            await self.wait(0.005)
        await task

    # OpenYurt's controller.

    def put_subject(self, number: int, **fields: Any) -> None:
        """Create or edit the subject; ``fields`` are those of its container."""
        path = "/apis/apps.openyurt.io/v1alpha1/namespaces/default/yurtappsets/demo"
        if number == 1:
            self.subject()
        made = self.server[path]
        template = made["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]
        template["containers"] = [container(**fields)]
        self.server.put(made)
        self._written = (f"demo-{number}", fields)

    async def write_template(self) -> None:
        """Write the workload as OpenYurt's controller does for the last `put_subject`."""
        revision, fields = self._written
        path = self.path()
        made = copy.deepcopy(self.server[path])
        made["metadata"]["labels"][REVISION] = revision
        made["spec"]["template"] = {
            "metadata": {"labels": {"app": "demo", "apps.openyurt.io/pool-name": "hangzhou", REVISION: revision}},
            "spec": {"containers": [container(**fields)]},
        }
        await self.finish(self.api.replace(path, made))

    async def create_workload(self) -> None:
        path = self.path()
        made = self.server[path]
        self.server.delete(path)
        for member in ("resourceVersion", "generation", "annotations"):
            made["metadata"].pop(member)
        made["metadata"]["annotations"] = {"apps.openyurt.io/patch": ""}
        await self.finish(self.api.replace(path, made))

    def expected(self, *entries: Document) -> Document:
        """The workload that a current store renders."""
        _, fields = self._written
        path = "/apis/apps.openyurt.io/v1alpha1/namespaces/default/yurtappsets/demo"
        bare = copy.deepcopy(self.server[self.path()])
        bare["metadata"]["annotations"] = {"apps.openyurt.io/patch": ""}
        bare["spec"]["template"]["spec"] = {"containers": [container(**fields)]}
        known = [self.server[path]]
        if entries:
            known += [node_pool("hangzhou", {"region": "east"}), self.server[self.rule()]]
        return rendered(bare, *known)

    def is_expected(self, *entries: Document) -> bool:
        found, wanted = self.server[self.path()], self.expected(*entries)
        hashes = [one["metadata"]["annotations"].get("fleethook.io/rendered") for one in (found, wanted)]
        return bool(found["spec"] == wanted["spec"] and hashes[0] == hashes[1])


class Reviewed(Apiserver):
    """An apiserver that waits for the reviews of a replica."""

    decide: Callable[[Document | None, Document], Any]

    def __init__(self, objects: Store, plans: PlanCache) -> None:
        super().__init__(objects, plans)
        self._answers: dict[str, Document] = {}
        self.templates: list[Document] = []

    async def replace(self, path: str, document: Document) -> None:
        """Store a workload as reviewed."""
        self.store(path, await self.decide(self.objects.get(path), document))

    async def json(self, method: str, path: str, **rest: Any) -> Any:
        if method == "PATCH" and is_workload(path):
            before = self.objects[path]
            is_list = "json-patch" in rest.get("content_type", "")
            after = apply(before, rest["body"]) if is_list else merge_patch(before, rest["body"])
            self._answers[before["metadata"]["resourceVersion"]] = await self.decide(before, after)
        return await super().json(method, path, **rest)

    def _review(self, before: Document | None, after: Document) -> Document:
        if after["kind"] not in WORKLOAD_KINDS:
            return after
        assert before is not None
        return self._answers.pop(before["metadata"]["resourceVersion"])

    def _keep(self, path: str, former: Document | None, after: Document) -> Document:
        if is_workload(path) and self.templates[-1:] != [after["spec"]["template"]]:
            self.templates.append(after["spec"]["template"])
        return super()._keep(path, former, after)


@contextlib.asynccontextmanager
async def started(
    milliseconds: int, *entries: Document, late_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """A converged world with one workload that was rendered once."""
    monkeypatch.setattr("fleethook.engines.overrider.admission.fresh_read_requests_and_waits.CATCH_UP_SECONDS", NET)
    monkeypatch.setattr("fleethook.engines.overrider.admission.fresh_read_requests_and_waits._READ_SECONDS", NET)
    world = World(milliseconds, late_leader=late_leader)
    world.server.put(node_pool("hangzhou", {"region": "west"}))
    world.put_subject(1)
    world.override(*(entries or (TO_2,)))
    async with world.run():
        await world.write_template()
        await world.create_workload()
        await world.wait(15)
        world.api.templates[:-1] = []
        world.reader.reads.clear()
        yield world


async def converge(world: World, *entries: Document) -> int:
    """Wait until the workload is as expected and stays so, and return the number of its pod templates."""
    await world.wait_for(lambda: world.is_expected(*entries), seconds=120)
    await world.wait(30)
    assert world.is_expected(*entries)
    return len(world.api.templates)


pytestmark = pytest.mark.parametrize(
    ("delay", "pause", "late_leader"),
    [(20, 0, True), (50, 0, False), (50, 30, True), (200, 0, False), (200, 100, True), (50, 300, False)],
)
"""The milliseconds of the delay, those between an edit and the write of a workload, and whether the leader is late."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"args": ["--a"]}, {"args": ["--b"]}, id="changed"),
        pytest.param({"args": ["--a"]}, {}, id="removed"),
        pytest.param({}, {"args": ["--b"]}, id="added"),
        pytest.param({}, {"image": "mirror/nginx:2.0"}, id="as the entry"),
    ],
)
async def test_a_template_edit_is_stored_once(
    delay: int, pause: int, *, late_leader: bool, before: Any, after: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(delay, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        world.put_subject(2, **before)
        await world.wait(1)
        await world.write_template()
        await world.wait(15)
        world.api.templates[:-1] = []
        world.put_subject(3, **after)
        await world.pause(pause)
        await world.write_template()
        assert await converge(world, TO_2) == 2


async def test_an_edit_of_the_overrider_is_stored_once(
    delay: int, pause: int, *, late_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(delay, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        world.override(TO_3)
        await world.pause(pause)
        # A person's write of another member, from a store that does not have the overrider yet.
        await world.finish(world.api.replace(world.path(), edited(world, paused=True)))
        assert await converge(world, TO_3) == 2


def edited(world: World, **spec: Any) -> Document:
    made = world.server[world.path()]
    return {**made, "spec": {**made["spec"], **spec}}


@pytest.mark.parametrize("is_first", [True, False], ids=["overrider first", "template first"])
async def test_edits_of_the_template_and_of_the_overrider_are_stored_at_most_twice(
    delay: int, pause: int, *, late_leader: bool, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write of OpenYurt's controller does not show that the overrider is newer than the store."""
    async with started(delay, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        for edits_overrider in (is_first, not is_first):
            if edits_overrider:
                world.override(TO_3)
            else:
                world.put_subject(2, args=["--b"])
        await world.pause(pause)
        await world.write_template()
        # The leader may write before OpenYurt's controller, and the late replica may not have the overrider.
        assert await converge(world, TO_3) <= 3


async def test_a_workload_that_is_created_after_an_edit_of_the_overrider_is_corrected(
    delay: int, pause: int, *, late_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(delay, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        world.override(TO_3)
        await world.pause(pause)
        await world.create_workload()
        assert await converge(world, TO_3) <= 2


async def test_the_deletion_of_an_overrider_is_undone_once(
    delay: int, pause: int, *, late_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(delay, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        world.server.delete(world.rule())
        await world.pause(pause)
        await world.finish(world.api.replace(world.path(), edited(world, paused=True)))
        assert await converge(world) == 2


async def test_other_labels_of_a_node_pool_are_rendered_once(
    delay: int, pause: int, *, late_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(delay, EAST, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        world.server.put(node_pool("hangzhou", {"region": "east"}))
        await world.pause(pause)
        await world.finish(world.api.replace(world.path(), edited(world, paused=True)))
        assert await converge(world, EAST) == 2


async def test_an_entry_that_replaces_a_member_of_a_newer_template_is_rendered_again(
    delay: int, pause: int, *, late_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer template only adds a member, so the older one fits the workload, and the review reads nothing."""
    rule = entry("hangzhou", patches=[patch("add", f"{CONTAINER}/resources", {"limits": {"cpu": "1"}})])
    async with started(delay, rule, late_leader=late_leader, monkeypatch=monkeypatch) as world:
        world.put_subject(2, resources={"requests": {"memory": "1Gi"}})
        await world.pause(pause)
        is_late = "resources" not in str(world.store.get(*SUBJECT))
        await world.write_template()
        assert world.reader.reads == []
        assert await converge(world, rule) == (3 if is_late else 2)
