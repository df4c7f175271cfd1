"""Announcements of new overriders, against an apiserver in memory; tests/e2e/test_announcements.py has a real one."""

import asyncio
import copy
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.registration.match_conditions import Announcement, Selection, SubjectName
from fleethook.cluster.store import Store, key_of
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION, Mode
from fleethook.engines.overrider.subject.bound_subjects import announce_overrider, bound_subjects, overrider_uids
from fleethook.model.admission import allowed, denied
from tests.builders import entry, overrider, request
from tests.cluster.registration.apiserver import DEMO, NEW, OTHER, Server, announcer, configuration, writer
from tests.waiting import settled


async def test_announce_adds_the_subject_of_a_new_overrider() -> None:
    server = Server(configuration())
    server.add(OTHER)
    await announcer(server).announce(NEW)
    assert server.listed() == {DEMO, OTHER}
    await announcer(server).announce(NEW)
    assert len(server.written) == 1


async def test_an_announcement_keeps_the_lists_that_only_the_leader_knows() -> None:
    """The watch of this replica is late, and only the leader knows which overriders policies apply."""
    server = Server(configuration())
    far = SubjectName("far", "YurtAppSet", "listed")
    server.select(Selection(frozenset({far}), covered=frozenset({OTHER})))
    await announcer(server).announce(NEW, fails_open=True)
    assert server.selection() == Selection(frozenset({far}), frozenset({DEMO}), frozenset({OTHER}))


@pytest.mark.parametrize("present", [None, {"webhooks": []}])
async def test_without_registration_no_subject_is_announced(present: Any) -> None:
    server = Server(present)
    await announcer(server).announce(NEW)
    assert server.written == []


async def test_a_replica_writes_the_first_condition_and_the_leader_keeps_its_subject() -> None:
    """The leader's watch never receives the new overrider."""
    server, now = Server(configuration()), [100.0]
    await announcer(server).announce(NEW)
    assert [server.listed(), server.announced()] == [{DEMO}, (NEW,)]
    leader = writer(server, lambda: {OTHER}, clock=lambda: now[0])
    assert await leader.write()
    assert server.listed() == {DEMO, OTHER}
    now[0] += 10.1
    assert await leader.write()
    assert [server.listed(), server.announced()] == [{OTHER}, ()]


async def test_an_announcement_conflicts_with_a_prepared_first_condition() -> None:
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
    await leader.write()
    assert server.listed() == {DEMO}


async def test_a_subject_with_a_recreated_overrider_stays_listed() -> None:
    """The leader has received the deletion, but not the new overrider."""
    server, store, now = Server(configuration()), Store(), [100.0]
    former = overrider(entry("*"))
    former["metadata"]["uid"] = "uid-of-former"
    store.put(former)
    leader = writer(
        server, lambda: bound_subjects(store, Mode.AUTO), overriders=lambda: overrider_uids(store), clock=lambda: now[0]
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
    # From now on, the store decides about the subject.
    store.remove(key_of(again))
    assert await leader.write()
    assert [server.listed(), server.announced()] == [frozenset(), ()]


async def test_an_expired_announcement_is_removed_although_the_condition_stays() -> None:
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


async def test_announcements_of_stored_overriders_are_removed_in_batches() -> None:
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


async def test_a_late_watch_removes_no_stored_overrider() -> None:
    server, now, stored, read = Server(configuration()), [100.0], set[SubjectName](), list[str]()

    async def refresh(namespace: str) -> None:
        read.append(namespace)
        stored.add(DEMO)

    leader = writer(server, lambda: stored, refresh=refresh, clock=lambda: now[0])
    await leader.write()
    await announcer(server).announce(NEW)
    now[0] += 60
    assert not await leader.write()
    assert read == []  # the announcement has not expired
    now[0] += 60
    assert not await leader.write()
    assert [read, server.listed()] == [["default"], {DEMO}]


async def test_announce_waits_for_the_watch() -> None:
    server, seen = Server(configuration()), asyncio.Event()
    server.add()
    asked: list[str] = []

    async def wait(resource_version: str) -> None:
        asked.append(resource_version)
        await seen.wait()

    announcing = asyncio.create_task(announcer(server, seen=wait).announce(NEW))
    await settled(lambda: asked)
    assert [asked, server.listed(), announcing.done()] == [["4"], {DEMO}, False]
    seen.set()
    await announcing
    await announcer(server, seen=wait).announce(NEW)
    assert asked == ["4"]


async def test_the_wait_for_a_late_watch_is_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fleethook.cluster.registration.announcer._MAX_SECONDS", 0.05)
    server = Server(configuration())
    server.add()

    async def wait(_resource_version: str) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(20):
        await announcer(server, seen=wait).announce(NEW)
    assert server.listed() == {DEMO}
    assert "cannot announce" not in caplog.text


async def test_reviews_of_one_replica_take_turns() -> None:
    server = Server(configuration())
    server.add()
    one = announcer(server)
    subjects = [SubjectName("default", "YurtAppSet", f"app-{number}") for number in range(20)]
    answer = server.json

    async def late(*given: Any) -> Any:
        present = await answer(*given)
        await asyncio.sleep(0)  # the other reviews read before this one writes
        return present

    server.json = late  # type: ignore[method-assign]
    await asyncio.gather(*(one.announce(Announcement(subject, subject.name)) for subject in subjects))
    assert server.listed() == set(subjects)
    assert len(server.written) == 20


async def test_a_configuration_that_is_deleted_meanwhile_needs_no_announcement(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(configuration())
    server.meanwhile = [lambda: setattr(server, "present", None)]
    await announcer(server).announce(NEW)
    assert (server.written, caplog.messages) == ([], [])


async def test_concurrent_announcements_of_replicas_are_all_listed() -> None:
    server = Server(configuration())
    server.add()
    server.meanwhile = [lambda: server.add(OTHER)]
    await announcer(server).announce(NEW)
    assert server.listed() == {DEMO, OTHER}


@pytest.mark.parametrize("error", [APIError(403, "Forbidden", "may not"), UnreachableError("cut")])
async def test_a_failed_announcement_is_logged_and_does_not_deny_the_request(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(configuration())
    server.failures = [error]
    await announcer(server).announce(NEW)
    assert "cannot announce the subject YurtAppSet default/demo of a new overrider" in caplog.text
    server.add()
    server.meanwhile = [server.add] * 5
    await announcer(server).announce(NEW)
    assert "other replicas keep changing the configuration" in caplog.text


async def test_a_list_with_namespaces_keeps_them() -> None:
    server = Server(configuration())
    server.add(*(SubjectName(f"team-{number % 2}", "YurtAppSet", f"app-{number}") for number in range(9_000)))
    assert server.selection().namespaces == {"team-0", "team-1"}
    there = Announcement(SubjectName("team-1", "YurtAppSet", "new"), "u")
    await announcer(server).announce(there)
    assert (server.listed(), server.announced()) == (frozenset(), (there,))
    await announcer(server, OTHER).announce(NEW)
    assert server.selection() == Selection(frozenset({DEMO}), namespaces=frozenset({"team-0", "team-1"}))


async def test_only_created_overriders_are_announced() -> None:
    announced: list[tuple[Announcement, bool]] = []

    async def announce(announcement: Announcement, *, fails_open: bool) -> None:
        announced.append((announcement, fails_open))

    rule = overrider(entry("*"))
    for response, fields in (
        (denied("no"), {}), (allowed(), {"dryRun": True}), (allowed(), {"subResource": "status"}),
        (allowed(), {"operation": "UPDATE", "old": rule}),
    ):  # fmt: skip
        await announce_overrider(request(rule, **fields), response, announce=announce, default=Mode.AUTO)
    await announce_overrider(
        request(overrider(subject={"kind": "Pod"})), allowed(), announce=announce, default=Mode.AUTO
    )
    assert announced == []
    await announce_overrider(request(rule), allowed(), announce=announce, default=Mode.AUTO)
    rule["metadata"]["uid"] = "its-own"
    await announce_overrider(request(rule), allowed(), announce=announce, default=Mode.AUTO)
    rule["metadata"]["annotations"] = {MODE_ANNOTATION: "policy"}
    await announce_overrider(request(rule), allowed(), announce=announce, default=Mode.AUTO)
    own = Announcement(DEMO, "its-own")
    assert announced == [(Announcement(DEMO, request(rule).uid), False), (own, False), (own, True)]
