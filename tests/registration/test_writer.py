"""Writing the selection, against an apiserver that answers as it is told; tests/e2e/test_selection.py has a real one."""

import asyncio
import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest

from app.kube.errors import APIError, UnreachableError
from app.lifetime import running
from app.model.admission import allowed, denied
from app.overrider.selected import (
    announce_overrider,
    bound_subjects,
    call_on_change,
    call_when_selected,
    overrider_uids,
)
from app.registration.announcements import (
    ANNOUNCED_ANNOTATION,
    MAX_ANNOTATION_BYTES,
    Announcement,
    read_announcements,
    write_announcements,
)
from app.registration.announcer import Announcer
from app.registration.condition_client import ConditionClient
from app.registration.selection import SubjectName, bound_condition, bound_condition_of, listed_subjects
from app.registration.webhooks import SELECTED, ServiceReference, webhook_configurations
from app.registration.writer import SelectionWriter
from app.store import Store
from app.store.store import key_of
from tests.builders import entry, overrider, request

DEMO = SubjectName("default", "YurtAppSet", "demo")
OTHER = SubjectName("default", "YurtAppDaemon", "agent")
NEW = Announcement(DEMO, "uid-of-new")
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fleethook"


def configuration() -> dict[str, Any]:
    mutating, _ = webhook_configurations(ServiceReference("fleet", "fleethook"))
    return mutating


class Server:
    """The configuration, changed as server-side apply does; ``meanwhile`` runs between a read and the next write."""

    def __init__(self, present: dict[str, Any] | None) -> None:
        self.present = present
        self.written: list[Any] = []
        self.reads = 0
        self.failures: list[Exception] = []
        self.meanwhile: list[Callable[[], Any]] = []
        self._version = 1

    async def json(self, _method: str, path: str) -> Any:
        assert path == CONFIGURATION
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        if self.present is None:
            raise APIError(404, "NotFound", "not found")
        present = copy.deepcopy(self.present)
        present.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return present

    def add(self, *subjects: SubjectName) -> None:
        """Set the condition as another replica does."""
        assert self.present is not None
        self._version += 1
        for webhook in self.present["webhooks"]:
            if webhook["name"] in SELECTED:
                webhook["matchConditions"] = [*webhook["matchConditions"][:2], bound_condition(subjects)]

    def listed(self) -> frozenset[SubjectName] | None:
        assert self.present is not None
        conditions = [bound_condition_of(one) for one in self.present["webhooks"] if one["name"] in SELECTED]
        assert conditions[0] is not None
        assert conditions[0] == conditions[1]
        return listed_subjects(conditions[0]["expression"])

    async def request(self, method: str, path: str, *, query: Any, body: Any, content_type: str) -> bytes:
        assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
        assert (path, query) == (CONFIGURATION, {"fieldManager": "fleethook-selection", "force": "true"})
        if body["metadata"]["resourceVersion"] != str(self._version):
            raise APIError(409, "Conflict", "the object has been modified")
        self._version += 1
        self.written.append(body["webhooks"])
        assert self.present is not None
        self.present.setdefault("metadata", {})["annotations"] = body["metadata"].get("annotations", {})
        applied = {webhook["name"]: webhook["matchConditions"] for webhook in body["webhooks"]}
        for webhook in self.present["webhooks"]:
            kept = [one for one in webhook["matchConditions"] if one["name"] != "bound-to-an-overrider"]
            webhook["matchConditions"] = [*kept, *applied.get(webhook["name"], [])]
        return b'{"metadata":{"resourceVersion":"%d"}}' % self._version

    def announced(self) -> tuple[Announcement, ...]:
        assert self.present is not None
        return read_announcements(self.present["metadata"].get("annotations", {}).get(ANNOUNCED_ANNOTATION))


def writer(server: Server, subjects: Callable[[], Any] | None, **rest: Any) -> SelectionWriter:
    return SelectionWriter(ConditionClient(server), subjects, pause_seconds=0, **rest)  # type: ignore[arg-type]


def announcer(server: Server, *bound: SubjectName, **rest: Any) -> Announcer:
    return Announcer(ConditionClient(server), lambda: bound, **rest)  # type: ignore[arg-type]


async def settled(condition: Callable[[], Any]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing more happens, and the condition is not true")


async def test_the_condition_is_added_to_the_webhooks_for_workloads_and_nothing_else_is_written() -> None:
    server = Server(configuration())
    assert await writer(server, lambda: {DEMO}).write()
    assert server.written == [[{"name": name, "matchConditions": [bound_condition({DEMO})]} for name in SELECTED]]
    assert len(SELECTED) == 2


async def test_what_is_as_it_should_be_is_not_written() -> None:
    server = Server(configuration())
    selection = writer(server, lambda: {DEMO})
    assert [await selection.write() for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("present", [None, {}, {"webhooks": [{"name": "other.io"}]}])
async def test_what_is_not_registered_is_not_invented(present: Any) -> None:
    server = Server(present)
    assert not await writer(server, lambda: {DEMO}).write()
    assert server.written == []


async def test_a_selection_is_taken_back_once() -> None:
    server = Server(configuration())
    await writer(server, lambda: {DEMO}).write()
    withdrawing = writer(server, None)
    assert [await withdrawing.write() for _ in range(2)] == [True, False]
    assert server.written[-1] == []


async def test_announcements_are_taken_back_with_the_selection() -> None:
    server = Server(configuration())
    await announcer(server).announce(NEW)
    withdrawing = writer(server, None)
    assert [await withdrawing.write() for _ in range(2)] == [True, False]
    assert server.announced() == ()


async def test_subjects_are_followed_and_edits_of_others_are_mended() -> None:
    server, store = Server(configuration()), Store()
    selection = writer(server, lambda: bound_subjects(store))
    end = call_on_change(store, selection.wake)
    async with running(selection.run(), name="selection", ended=pytest.fail):
        await settled(lambda: len(server.written) == 1)
        rule = overrider(entry("*"))
        store.put(rule)
        await settled(lambda: len(server.written) == 2)
        assert server.written[-1][0]["matchConditions"] == [bound_condition({DEMO})]
        server.present = configuration()
        store.put({**configuration(), "changed": True})
        await settled(lambda: len(server.written) == 3)
        store.remove(key_of(rule))
        await settled(lambda: len(server.written) == 4)
        assert server.written[-1][0]["matchConditions"] == [bound_condition(())]
    end()
    store.put(rule)
    assert len(server.written) == 4


async def test_what_does_not_change_the_subjects_asks_for_nothing() -> None:
    server, store = Server(configuration()), Store()
    store.put(overrider(entry("*")))
    selection = writer(server, lambda: bound_subjects(store))
    call_on_change(store, selection.wake)
    async with running(selection.run(), name="selection", ended=pytest.fail):
        await settled(lambda: server.written)
        reads = server.reads
        store.put({**overrider(entry("*")), "status": {"summary": "1/1"}})
        store.put(overrider(entry("hangzhou")))
        other = configuration()
        other["metadata"]["name"] = "other"
        store.put(other)
        with pytest.raises(AssertionError):
            await settled(lambda: server.reads > reads)


@pytest.mark.parametrize("error", [APIError(403, "Forbidden", "may not"), UnreachableError("cut")])
async def test_a_failure_is_tried_again_and_logged_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    server = Server(configuration())
    server.failures = [error, error]
    async with running(writer(server, lambda: {DEMO}).run(), name="selection", ended=pytest.fail):
        await settled(lambda: server.written)
    assert caplog.text.count("the condition bound-to-an-overrider was not written") == 1


async def test_a_withdrawal_waits_until_there_is_something_to_withdraw() -> None:
    server, store = Server(configuration()), Store()
    store.put(configuration())
    withdrawing = writer(server, None)
    call_when_selected(store, withdrawing.wake)
    async with running(withdrawing.run(), name="selection", ended=pytest.fail):
        with pytest.raises(AssertionError):
            await settled(lambda: server.reads)
        await writer(server, lambda: {DEMO}).write()
        assert server.present is not None
        store.put(server.present)
        await settled(lambda: server.written[-1] == [])


def test_subjects_of_all_overriders_are_found() -> None:
    store = Store()
    for name, namespace, subject in (
        ("a", "x", {"kind": "YurtAppSet", "name": "one"}), ("b", "x", {"kind": "YurtAppSet", "name": "one"}),
        ("c", "y", {"kind": "YurtAppDaemon", "name": "two"}), ("d", "y", {"kind": "Pod"}), ("e", "y", {}),
    ):  # fmt: skip
        store.put(overrider(entry("*"), name=name, namespace=namespace, subject=subject))
    demo = SubjectName("y", "YurtAppSet", "demo")
    assert bound_subjects(store) == {
        SubjectName("x", "YurtAppSet", "one"),
        SubjectName("y", "YurtAppDaemon", "two"),
        demo,
    }


async def test_a_subject_is_added_for_an_overrider_that_is_about_to_be_created() -> None:
    server = Server(configuration())
    server.add(OTHER)
    await announcer(server).announce(NEW)
    assert server.listed() == {DEMO, OTHER}
    await announcer(server).announce(NEW)
    assert len(server.written) == 1


@pytest.mark.parametrize("present", [None, {"webhooks": []}])
async def test_nothing_is_announced_where_nothing_is_registered(present: Any) -> None:
    server = Server(present)
    await announcer(server).announce(NEW)
    assert server.written == []


async def test_nothing_is_announced_where_no_leader_writes_the_condition() -> None:
    server = Server(configuration())
    await announcer(server, selecting=False).announce(NEW)
    assert server.written == []


async def test_the_first_condition_has_a_subject_that_was_announced_while_everything_was_sent() -> None:
    """The leader's watch of the overriders is behind: here, it never brings the new one."""
    server, now = Server(configuration()), [100.0]
    await announcer(server).announce(NEW)
    assert [server.written, server.announced()] == [[[]], (NEW,)]
    leader = writer(server, lambda: {OTHER}, clock=lambda: now[0])
    assert await leader.write()
    assert server.listed() == {DEMO, OTHER}
    now[0] += 10.1
    assert await leader.write()
    assert [server.listed(), server.announced()] == [{OTHER}, ()]


async def test_an_announcement_makes_a_first_condition_fail_that_was_prepared_before() -> None:
    server = Server(configuration())
    leader = writer(server, lambda: ())

    def announce() -> None:
        announcing.append(asyncio.create_task(announcer(server).announce(NEW)))

    announcing: list[asyncio.Task[None]] = []
    server.meanwhile = [announce]
    written = server.request

    async def late(*given: Any, **rest: Any) -> bytes:
        if len(announcing) == 1 and not announcing[0].done():
            server.request = written  # type: ignore[method-assign]
            await announcing[0]
        return await written(*given, **rest)

    server.request = late  # type: ignore[method-assign]
    with pytest.raises(APIError, match="modified"):
        await leader.write()
    assert await leader.write()
    assert server.listed() == {DEMO}


async def test_a_subject_whose_overrider_is_deleted_and_created_again_stays_listed() -> None:
    """The leader sees the deletion, and not yet the new overrider."""
    server, store, now = Server(configuration()), Store(), [100.0]
    former = overrider(entry("*"))
    former["metadata"]["uid"] = "uid-of-former"
    store.put(former)
    leader = writer(
        server, lambda: bound_subjects(store), overriders=lambda: overrider_uids(store), clock=lambda: now[0]
    )
    await leader.write()
    await announcer(server).announce(NEW)
    store.remove(key_of(former))
    assert not await leader.write()
    assert server.listed() == {DEMO}
    again = copy.deepcopy(former)
    again["metadata"]["uid"] = NEW.overrider
    store.put(again)
    assert not await leader.write()
    # From now on, the store tells about it.
    store.remove(key_of(again))
    assert await leader.write()
    assert [server.listed(), server.announced()] == [frozenset(), ()]


async def test_an_announcement_without_an_overrider_goes_where_the_condition_stays_the_same() -> None:
    server, now, read = Server(configuration()), [100.0], list[str]()

    async def refresh(namespace: str) -> None:
        read.append(namespace)

    many = {SubjectName(f"team-{number % 9}", "YurtAppSet", f"app-{number}") for number in range(9_000)}
    leader = writer(server, lambda: many, refresh=refresh, clock=lambda: now[0])
    assert await leader.write()
    there = Announcement(SubjectName("team-3", "YurtAppSet", "new"), "u")
    await announcer(server).announce(there)
    assert not await leader.write()
    now[0] += 60
    assert [await leader.write() for _ in range(3)] == [True, False, False]
    assert [server.announced(), read] == [(), ["team-3"]]


async def test_announcements_of_stored_overriders_go_in_numbers() -> None:
    server, now = Server(configuration()), [100.0]
    announcements = [Announcement(SubjectName("default", "YurtAppSet", f"app-{n}"), f"uid-{n}") for n in range(51)]
    leader = writer(
        server,
        lambda: [one.subject for one in announcements],
        overriders=lambda: [one.overrider for one in announcements],
        clock=lambda: now[0],
    )
    assert await leader.write()
    for one in announcements[:50]:
        await announcer(server).announce(one)
    assert not await leader.write()
    assert len(server.announced()) == 50
    await announcer(server).announce(announcements[50])
    assert [await leader.write() for _ in range(2)] == [True, False]
    assert server.announced() == ()


async def test_a_late_watch_takes_no_stored_overrider_out() -> None:
    server, now, stored, read = Server(configuration()), [100.0], set[SubjectName](), list[str]()

    async def refresh(namespace: str) -> None:
        read.append(namespace)
        stored.add(DEMO)

    leader = writer(server, lambda: stored, refresh=refresh, clock=lambda: now[0])
    await leader.write()
    await announcer(server).announce(NEW)
    now[0] += 60
    assert not await leader.write()
    assert read == []  # It was found just now.
    now[0] += 60
    assert not await leader.write()
    assert [read, server.listed()] == [["default"], {DEMO}]


async def test_an_announcement_waits_until_its_own_watch_has_seen_it() -> None:
    server, seen = Server(configuration()), asyncio.Event()
    server.add()
    asked: list[str] = []

    async def wait(resource_version: str) -> None:
        asked.append(resource_version)
        await seen.wait()

    announcing = asyncio.create_task(announcer(server, seen=wait).announce(NEW))
    await settled(lambda: asked)
    assert [asked, server.listed(), announcing.done()] == [["3"], {DEMO}, False]
    seen.set()
    await announcing
    await announcer(server, seen=wait).announce(NEW)
    assert asked == ["3"]


async def test_a_watch_that_is_late_is_waited_for_in_bounds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.registration.announcer._MAX_SECONDS", 0.05)
    server = Server(configuration())
    server.add()

    async def wait(_resource_version: str) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(20):
        await announcer(server, seen=wait).announce(NEW)
    assert server.listed() == {DEMO}
    assert "was not announced" not in caplog.text


async def test_reviews_of_one_replica_take_turns() -> None:
    server = Server(configuration())
    server.add()
    one = announcer(server)
    subjects = [SubjectName("default", "YurtAppSet", f"app-{number}") for number in range(20)]
    answer = server.json

    async def late(*given: Any) -> Any:
        present = await answer(*given)
        await asyncio.sleep(0)  # Others read the same before this one writes.
        return present

    server.json = late  # type: ignore[method-assign]
    await asyncio.gather(*(one.announce(Announcement(subject, subject.name)) for subject in subjects))
    assert server.listed() == set(subjects)
    assert len(server.written) == 20


@pytest.mark.parametrize("text", [None, 7, "", "{", '["a"]', '[["a","b"]]', "[[[1,2,3],4]]"])
def test_an_annotation_of_another_form_announces_nothing(text: Any) -> None:
    assert read_announcements(text) == ()


def test_the_oldest_announcements_give_way_where_the_annotation_would_be_too_long() -> None:
    many = [Announcement(SubjectName("n" * 63, "YurtAppSet", f"app-{number}"), "u" * 36) for number in range(2_000)]
    text = write_announcements(many)
    kept = read_announcements(text)
    assert MAX_ANNOTATION_BYTES - 200 < len(text) <= MAX_ANNOTATION_BYTES
    assert list(kept) == many[-len(kept) :]
    assert read_announcements(write_announcements([NEW])) == (NEW,)


async def test_two_replicas_that_announce_at_once_lose_no_subject() -> None:
    server = Server(configuration())
    server.add()
    server.meanwhile = [lambda: server.add(OTHER)]
    await announcer(server).announce(NEW)
    assert server.listed() == {DEMO, OTHER}


@pytest.mark.parametrize("error", [APIError(403, "Forbidden", "may not"), UnreachableError("cut")])
async def test_an_announcement_that_fails_is_logged_and_refuses_nothing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(configuration())
    server.failures = [error]
    await announcer(server).announce(NEW)
    assert "YurtAppSet default/demo of a new overrider was not announced" in caplog.text
    server.add()
    server.meanwhile = [server.add] * 5
    await announcer(server).announce(NEW)
    assert "other replicas change the configuration at the same time" in caplog.text


async def test_where_namespaces_are_listed_the_list_is_made_anew() -> None:
    server = Server(configuration())
    server.add(*(SubjectName(f"team-{number % 9}", "YurtAppSet", f"app-{number}") for number in range(9_000)))
    assert server.listed() is None
    there = Announcement(SubjectName("team-3", "YurtAppSet", "new"), "u")
    await announcer(server).announce(there)
    assert [server.listed(), server.announced()] == [None, (there,)]
    await announcer(server, OTHER).announce(NEW)
    assert server.listed() == {DEMO, OTHER}


async def test_only_an_overrider_that_is_created_is_announced() -> None:
    announced: list[Announcement] = []

    async def announce(announcement: Announcement) -> None:
        announced.append(announcement)

    rule = overrider(entry("*"))
    for response, fields in (
        (denied("no"), {}), (allowed(), {"dryRun": True}), (allowed(), {"subResource": "status"}),
        (allowed(), {"operation": "UPDATE", "old": rule}),
    ):  # fmt: skip
        await announce_overrider(request(rule, **fields), response, announce=announce)
    await announce_overrider(request(overrider(subject={"kind": "Pod"})), allowed(), announce=announce)
    assert announced == []
    await announce_overrider(request(rule), allowed(), announce=announce)
    rule["metadata"]["uid"] = "its-own"
    await announce_overrider(request(rule), allowed(), announce=announce)
    assert announced == [Announcement(DEMO, request(rule).uid), Announcement(DEMO, "its-own")]


async def test_the_leader_keeps_an_announced_subject_until_its_overrider_should_be_stored() -> None:
    server, now = Server(configuration()), [100.0]
    leader = writer(server, lambda: (), clock=lambda: now[0])
    await leader.write()
    await announcer(server).announce(NEW)
    assert [await leader.write() for _ in range(3)] == [False, False, False]
    now[0] += 9.9
    assert not await leader.write()
    now[0] += 0.2
    assert await leader.write()
    assert server.listed() == frozenset()


async def test_the_leader_takes_out_the_subject_of_an_overrider_that_went_at_once() -> None:
    server, bound = Server(configuration()), {DEMO}
    leader = writer(server, lambda: bound)
    await leader.write()
    bound.clear()
    assert await leader.write()
    assert server.listed() == frozenset()
    # Created again: the announcement is not taken for a remainder.
    await announcer(server).announce(NEW)
    assert not await leader.write()
    assert server.listed() == {DEMO}


async def test_a_leader_wakes_by_itself_when_an_announced_subject_has_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.registration.writer._ANNOUNCED_SECONDS", 0.05)
    server = Server(configuration())
    server.add(DEMO)
    async with running(writer(server, lambda: ()).run(), name="selection", ended=pytest.fail):
        async with asyncio.timeout(20):
            while server.listed():
                await asyncio.sleep(0.01)


async def test_a_write_that_meets_an_announcement_is_done_again_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(configuration())
    server.add()
    server.meanwhile = [lambda: server.add(OTHER)]
    async with running(writer(server, lambda: {DEMO}).run(), name="selection", ended=pytest.fail):
        await settled(lambda: server.listed() == {DEMO, OTHER})
    assert "was not written" not in caplog.text
