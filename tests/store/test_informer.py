"""The informer against a scripted apiserver: each answer is in the test's hands."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.kube.errors import APIError, UnreachableError
from app.lifetime import running
from app.model.gvk import GroupKind
from app.store import Index, Store
from app.store.sources.kubernetes.informer import Informer
from app.store.sources.kubernetes.resources import WatchedResource, whole
from app.store.sources.kubernetes.selection import Selection
from app.store.sources.kubernetes.source import KubernetesSource
from tests.waiting import NET

KIND = GroupKind("example.com", "Gadget")
GADGETS = WatchedResource("example.com", "v1", "gadgets", "Gadget", whole)

Step = Callable[[dict[str, str]], Any]


def gadget(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}, "spec": spec}


def page(version: int, *items: dict[str, Any], more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def event(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": document}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Gadget", "metadata": {"resourceVersion": str(version)}})


def gone() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


END = "the stream ends"


class Script:
    """Answers lists and watches by what is put into two queues; remembers what was asked."""

    def __init__(self) -> None:
        self.lists: asyncio.Queue[Any] = asyncio.Queue()
        self.watches: asyncio.Queue[Any] = asyncio.Queue()
        self.asked: list[dict[str, str]] = []
        self.singles: dict[str, Any] = {}
        self.slept: list[float] = []

    async def request(self, method: str, path: str, *, query: Any = None, **_: Any) -> bytes:
        del method
        if path in self.singles:
            answer = await self.singles[path]()
        else:
            self.asked.append(dict(query or {}))
            answer = await self.lists.get()
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Any, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        del path, idle
        self.asked.append(dict(query))
        first = await self.watches.get()
        if isinstance(first, Exception):
            raise first
        yield self._stream(first)

    async def _stream(self, first: Any) -> AsyncIterator[bytes]:
        step = first
        while step != END:
            if isinstance(step, Exception):
                raise step
            yield json.dumps(step).encode()
            step = await self.watches.get()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def put(self, *steps: Any) -> None:
        for step in steps:
            self.watches.put_nowait(step)

    @property
    def places(self) -> list[str]:
        return [asked["resourceVersion"] for asked in self.asked if "watch" in asked]


@contextlib.asynccontextmanager
async def informing(script: Script, store: Store) -> AsyncIterator[Informer]:
    informer = Informer(GADGETS, script, store, sleep=script.sleep)
    ended: list[str] = []
    async with running(informer.run(), name="informer", ended=ended.append):
        yield informer
    assert ended == []


def names(store: Store) -> dict[str, Any]:
    return {key.name: store.get(*key)["spec"] for key in store.keys(KIND)}


async def settled(condition: Callable[[], Any]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing more happens, and the condition is not true")


async def test_pages_are_read_to_the_end_and_objects_know_their_kind() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), more="token"))
    script.lists.put_nowait(page(10, gadget("b", 4)))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert names(store) == {"a": {}, "b": {}}
        assert store.get("", KIND, "ns", "a")["kind"] == "Gadget"
        assert [asked.get("continue") for asked in script.asked if "watch" not in asked] == [None, "token"]
        await settled(lambda: script.places == ["10"])


async def test_the_first_list_is_decoded_as_far_as_it_matters_and_later_ones_whole() -> None:
    decoded: list[tuple[str, str]] = []

    def noting(how: str) -> Any:
        def decode(text: Any) -> dict[str, Any]:
            document = whole(text)
            decoded.append((how, document["metadata"]["name"]))
            return document

        return decode

    script, store = Script(), Store()
    resource = GADGETS._replace(decode=noting("whole"), decode_first=noting("first"))
    informer = Informer(resource, script, store, sleep=script.sleep)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    script.put(event("MODIFIED", gadget("a", 11)), gone())
    script.lists.put_nowait(page(30, gadget("b", 22)))
    async with running(informer.run(), name="informer", ended=lambda _: None):
        await settled(lambda: informer.relists == 2)
    assert decoded == [("first", "a"), ("whole", "a"), ("whole", "b")]


async def test_a_live_list_decodes_only_the_objects_that_changed() -> None:
    decoded: list[str] = []

    def decode(text: Any) -> dict[str, Any]:
        document = whole(text)
        decoded.append(document["metadata"]["name"])
        return document

    script, store = Script(), Store()
    source = KubernetesSource([GADGETS._replace(decode=decode)], script, store, absent_seconds=10.0)
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4), gadget("c", 5)))
    async with running(source.run(), name="source", ended=lambda _: None):
        await source.wait_synced()
        decoded.clear()

        async def listed() -> Any:
            return page(30, gadget("a", 3), gadget("b", 22, changed=True), gadget("d", 23))

        script.singles["/apis/example.com/v1/namespaces/ns/gadgets"] = listed
        await source.read_namespace(KIND, cluster="", namespace="ns")
    assert decoded == ["b", "d"]
    assert names(store) == {"a": {}, "b": {"changed": True}, "d": {}}


BY_COLOR = Index("by_color", KIND, lambda _, one: [one["spec"].get("color")])
RED = Selection(BY_COLOR, "red", "ns", (("spec.color", "red"),))


async def test_a_selection_is_read_without_the_other_objects() -> None:
    script, store = Script(), Store([BY_COLOR])
    source = KubernetesSource([GADGETS], script, store, absent_seconds=10.0)
    known = [gadget("a", 3, color="red"), gadget("b", 4, color="red"), gadget("c", 5, color="blue")]
    script.lists.put_nowait(page(10, *known))
    async with running(source.run(), name="source", ended=lambda _: None):
        await source.wait_synced()

        async def listed() -> Any:
            return page(30, gadget("b", 22, color="red", changed=True), gadget("d", 23, color="red"))

        script.singles["/apis/example.com/v1/namespaces/ns/gadgets"] = listed
        await source.read_selected(RED, cluster="")
    red = {"color": "red"}
    assert names(store) == {"b": {**red, "changed": True}, "c": {"color": "blue"}, "d": red}


async def test_a_server_that_cannot_select_is_asked_for_the_namespace_until_the_definition_changes() -> None:
    script, store = Script(), Store([BY_COLOR])
    source = KubernetesSource([GADGETS], script, store, absent_seconds=10.0)
    script.lists.put_nowait(page(10))
    asked = 0
    async with running(source.run(), name="source", ended=lambda _: None):
        await source.wait_synced()

        async def refused_once() -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise APIError(400, "BadRequest", "field label not supported: spec.color")
            return page(30, gadget("a", 20 + asked, color="red"))

        script.singles["/apis/example.com/v1/namespaces/ns/gadgets"] = refused_once
        for reads in (2, 3):
            await source.read_selected(RED, cluster="")
            assert (asked, list(names(store))) == (reads, ["a"])
        store.put({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"}, "spec": {"versions": []},
        })  # fmt: skip
        asked = 0
        await source.read_selected(RED, cluster="")
        assert asked == 2


async def test_events_change_the_store_and_move_the_place() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    script.put(
        event("MODIFIED", gadget("a", 11, changed=True)), event("DELETED", gadget("b", 12)),
        event("ADDED", gadget("c", 13)), bookmark(20), END,
    )  # fmt: skip
    async with informing(script, store) as informer:
        await settled(lambda: informer.progress == 20)
        assert names(store) == {"a": {"changed": True}, "c": {}}
        await settled(lambda: script.places == ["10", "20"])
        assert informer.relists == 1


async def test_a_stream_that_is_cut_goes_on_where_it_was() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put(event("ADDED", gadget("a", 11)), UnreachableError("cut"))
    async with informing(script, store) as informer:
        await settled(lambda: script.places == ["10", "11"])
        assert informer.state().failing
        script.put(event("ADDED", gadget("b", 12)))
        await settled(lambda: "b" in names(store))
        assert not informer.state().failing
        assert informer.relists == 1


@pytest.mark.parametrize("refusal", [gone(), APIError(410, "Expired", "too old resource version")])
async def test_gone_lists_again_and_finds_deletions(refusal: Any) -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    script.put(refusal)
    script.lists.put_nowait(page(30, gadget("b", 4), gadget("c", 22)))
    async with informing(script, store) as informer:
        await settled(lambda: informer.relists == 2)
        assert names(store) == {"b": {}, "c": {}}
        await settled(lambda: script.places == ["10", "30"])


async def test_a_server_that_never_continues_is_listed_again_after_three_refusals() -> None:
    """An etcd that was restored knows nothing of our place: "Too large resource version" for ever."""
    script, store = Script(), Store()
    script.lists.put_nowait(page(1000, gadget("a", 900)))
    refusal = APIError(504, "Timeout", "Too large resource version: 1000, current: 50")
    script.put(refusal, refusal, refusal)
    script.lists.put_nowait(page(50, gadget("a", 40, restored=True)))
    async with informing(script, store) as informer:
        await settled(lambda: informer.relists == 2)
        assert names(store) == {"a": {"restored": True}}
        assert informer.progress == 50
        await settled(lambda: script.places == ["1000", "1000", "1000", "50"])


async def test_pauses_grow_with_each_failure_and_are_spread() -> None:
    script, store = Script(), Store()
    for _ in range(12):
        script.lists.put_nowait(UnreachableError("refused"))
    async with informing(script, store) as informer:
        await settled(lambda: len(script.slept) == 12)
        ceilings = [min(5.0, 0.25 * 2**number) for number in range(12)]
        assert all(0 < slept <= ceiling for slept, ceiling in zip(script.slept, ceilings, strict=True))
        assert len(set(script.slept)) == 12
        assert informer.state() == ("gadgets.example.com", False, "refused", None, True, False, True)
        script.lists.put_nowait(page(1))
        await informer.wait_synced()
        assert not informer.state().failing


async def test_a_stream_that_ends_at_once_again_and_again_is_not_asked_for_in_a_loop() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put(END, END, END)
    async with informing(script, store):
        await settled(lambda: len(script.places) == 4)
        assert len(script.slept) == 3


async def test_a_resource_that_is_not_served_is_synced_empty_and_asked_for_again() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(APIError(404, "NotFound", "the server could not find the requested resource"))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert "not served" in informer.state().detail
        await settled(lambda: script.slept == [10.0])
        script.lists.put_nowait(page(5, gadget("a", 3)))
        await settled(lambda: names(store))
        await settled(lambda: informer.state().detail == "")


NOT_SERVED = APIError(404, "NotFound", "the server could not find the requested resource")


async def test_a_resource_that_was_just_defined_is_asked_for_at_once_and_soon_again() -> None:
    """An apiserver serves it a moment after its definition was stored, and nobody says when."""
    script, store = Script(), Store()
    endless: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def sleep(seconds: float) -> None:
        script.slept.append(seconds)
        await (endless if seconds == 10.0 else asyncio.sleep(0))

    informer = Informer(GADGETS, script, store, sleep=sleep)
    script.lists.put_nowait(NOT_SERVED)
    async with running(informer.run(), name="informer", ended=pytest.fail):
        await settled(lambda: script.slept == [10.0])
        for _ in range(3):
            script.lists.put_nowait(NOT_SERVED)
        informer.ask_again()
        await settled(lambda: script.slept == [10.0, 0.1, 0.2, 0.4])
        script.lists.put_nowait(page(5, gadget("a", 3)))
        await settled(lambda: names(store))


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (APIError(500, "InternalError", "conversion webhook failed"), True),
        (APIError(429, "TooManyRequests", "storage is (re)initializing"), True),
        (APIError(403, "Forbidden", "cannot list"), False),
        (UnreachableError("refused"), False),
    ],
)
async def test_a_list_that_the_server_refuses_again_and_again_is_told_from_one_that_we_cannot_read(
    error: Exception, *, refused: bool
) -> None:
    script = Script()
    async with informing(script, Store()) as informer:
        for count in (1, 2, 3):
            assert not informer.state().refused
            script.lists.put_nowait(error)
            await settled(lambda count=count: len(script.slept) == count)
        await asyncio.wait_for(informer.wait_tried(), 5)
        assert informer.state().refused == refused
        script.lists.put_nowait(page(1))
        await informer.wait_synced()
        assert not informer.state().refused


async def test_a_list_that_expires_half_read_starts_over() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    script.lists.put_nowait(page(20, gadget("b", 15)))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert names(store) == {"b": {}}


async def test_what_is_not_json_does_not_end_it() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put({"no": "type"})
    async with informing(script, store) as informer:
        await settled(lambda: informer.state().failing)
        script.put(event("ADDED", gadget("a", 11)))
        await settled(lambda: names(store))


async def test_waiters_are_woken_when_their_version_is_reached_and_not_before() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        await asyncio.wait_for(informer.wait_for(10), NET)
        late, early = (asyncio.create_task(informer.wait_for(version)) for version in (15, 12))
        script.put(bookmark(12))
        await settled(early.done)
        assert not late.done()
        script.put(event("ADDED", gadget("a", 16)))
        await settled(late.done)


def source_of(script: Script, store: Store) -> tuple[KubernetesSource, Informer]:
    source = KubernetesSource([GADGETS], script, store, absent_seconds=1)
    return source, source.informer(KIND)


ONE = "/apis/example.com/v1/namespaces/ns/gadgets/a"


async def read_while(script: Script, store: Store, answer: Any, *meanwhile: dict[str, Any]) -> dict[str, Any]:
    """Read object ``a`` live; events arrive after the server has answered and before the answer is here."""
    source, informer = source_of(script, store)
    script.lists.put_nowait(page(10, gadget("a", 5)))
    async with running(informer.run(), name="informer", ended=lambda _: None):
        await informer.wait_synced()

        async def answered() -> Any:
            script.put(*meanwhile)
            await settled(lambda: informer.progress >= 11 or not meanwhile)
            return answer

        script.singles[ONE] = answered
        await source.read_one(KIND, cluster="", namespace="ns", name="a")
    return names(store)


NOT_FOUND = APIError(404, "NotFound", 'gadgets "a" not found')


async def test_a_live_read_is_ahead_of_the_watch() -> None:
    assert await read_while(Script(), Store(), gadget("a", 12, new=True)) == {"a": {"new": True}}
    assert await read_while(Script(), Store(), NOT_FOUND) == {}


async def test_a_live_read_does_not_bring_back_what_was_deleted_meanwhile() -> None:
    assert await read_while(Script(), Store(), gadget("a", 5), event("DELETED", gadget("a", 11))) == {}


async def test_a_live_read_does_not_remove_what_was_created_meanwhile() -> None:
    events = (event("DELETED", gadget("a", 10)), event("ADDED", gadget("a", 11, again=True)))
    assert await read_while(Script(), Store(), NOT_FOUND, *events) == {"a": {"again": True}}


async def test_a_live_read_does_not_replace_what_was_changed_meanwhile() -> None:
    events = (event("MODIFIED", gadget("a", 11, newest=True)),)
    assert await read_while(Script(), Store(), gadget("a", 7), *events) == {"a": {"newest": True}}


async def test_live_reads_of_one_object_share_a_request() -> None:
    script, store = Script(), Store()
    source, _ = source_of(script, store)
    answers = iter([gadget("a", 12, first=True), gadget("a", 13, second=True)])
    asked: list[asyncio.Future[None]] = []

    async def answered() -> Any:
        answer = next(answers)
        asked.append(asyncio.get_running_loop().create_future())
        await asked[-1]
        return answer

    script.singles[ONE] = answered

    def read() -> "asyncio.Task[None]":
        return asyncio.create_task(source.read_one(KIND, cluster="", namespace="ns", name="a"))

    early = [read() for _ in range(5)]
    await settled(lambda: len(asked) == 1)
    late = [read() for _ in range(5)]
    asked[0].set_result(None)
    await asyncio.gather(*early)
    assert names(store) == {"a": {"first": True}}
    await settled(lambda: len(asked) == 2)
    asked[1].set_result(None)
    await asyncio.gather(*late)
    assert names(store) == {"a": {"second": True}}


def definition_of(name: str) -> dict[str, Any]:
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}}


async def test_a_definition_that_changes_has_its_resource_asked_for_again() -> None:
    script, store = Script(), Store()
    source = KubernetesSource([GADGETS], script, store, absent_seconds=3600)
    script.lists.put_nowait(NOT_SERVED)
    async with running(source.run(), name="source", ended=pytest.fail):
        await source.wait_synced()
        await settled(script.lists.empty)
        script.lists.put_nowait(page(5, gadget("a", 3)))
        store.put(definition_of("widgets.example.com"))
        assert names(store) == {}
        store.put(definition_of("gadgets.example.com"))
        await settled(lambda: names(store))


async def test_what_no_answer_depends_on_is_waited_for_by_nobody() -> None:
    script, store = Script(), Store()
    other = GADGETS._replace(plural="others", kind="Other")
    script.singles[other.path] = lambda: asyncio.sleep(0, APIError(403, "Forbidden", "cannot list others"))
    source = KubernetesSource([GADGETS, other], script, store, absent_seconds=1, advisory=[other.group_kind])
    assert not source.synced
    assert source.missing([KIND]) == "gadgets.example.com cannot be read: not listed yet"
    script.lists.put_nowait(page(1))
    async with running(source.run(), name="source", ended=pytest.fail):
        await asyncio.wait_for(source.wait_synced(), 5)
        await asyncio.wait_for(source.wait_tried(), 5)
        assert (source.synced, source.missing([KIND])) == (True, "")
        (advisory,) = (part for part in source.parts() if part.name == other.name)
        assert advisory.synced
        assert "cannot list others" in advisory.detail
        assert "cannot list others" in source.missing([other.group_kind])
