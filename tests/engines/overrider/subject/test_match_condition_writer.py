"""The match condition of the workload webhooks, against an apiserver in memory."""

import asyncio
import copy
import logging
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.registration.webhook_configurations import CONFIGURATION_NAME
from fleethook.cluster.store import Store, key_of
from fleethook.engines.overrider.subject.announcements import Announcement
from fleethook.engines.overrider.subject.match_condition_texts import (
    SelectedSubjects,
    SubjectName,
    list_selected,
    select_workloads,
)
from fleethook.engines.overrider.subject.match_condition_writer import ConditionClient, bound_subjects, call_on_change
from tests.builders import API, entry, overrider, store_of, yurt_app_set
from tests.engines.overrider.subject.configuration_server import (
    DEMO,
    NEW,
    OTHER,
    Server,
    announcer,
    configuration,
    writer,
)
from tests.waiting import settled


def client(server: Server) -> ConditionClient:
    return ConditionClient(server)  # type: ignore[arg-type]


def closed(*subjects: Any) -> SelectedSubjects:
    return SelectedSubjects(frozenset(subjects))


async def test_a_write_sets_conditions_and_announcements() -> None:
    server = Server(configuration())
    registered = await client(server).read()
    assert registered is not None
    version = await client(server).write(registered, closed(OTHER), announcements=[NEW])
    assert (server.listed(), server.announced(), version) == ({OTHER}, (NEW,), "3")


async def test_a_changed_configuration_is_a_conflict() -> None:
    server = Server(configuration())
    registered = await client(server).read()
    assert registered is not None
    server.add(OTHER)
    with pytest.raises(APIError) as raised:
        await client(server).write(registered, closed(DEMO))
    assert raised.value.code == 409
    assert server.listed() == {OTHER}


async def test_only_the_condition_of_the_workload_webhooks_is_written() -> None:
    server = Server(configuration())
    assert await writer(server, lambda: {DEMO}).write()
    wanted = select_workloads(list_selected(), SelectedSubjects(frozenset({DEMO})))
    assert server.present is not None
    for before, after in zip(configuration()["webhooks"], server.present["webhooks"], strict=True):
        members = wanted.get(before["name"], {"matchConditions": []})
        assert after == {**before, **members, "matchConditions": before["matchConditions"] + members["matchConditions"]}
    assert len(list_selected()) == 4


async def test_no_field_stays_owned_so_that_an_installer_can_remove_webhooks() -> None:
    server = Server(configuration())
    leader = writer(server, lambda: {DEMO})
    assert await leader.write()
    assert server.present is not None
    assert (server.present["metadata"]["managedFields"], server.released) == (
        configuration()["metadata"]["managedFields"],
        1,
    )
    # An earlier version owns fields.
    server.present["metadata"]["managedFields"].append({"manager": "fleethook-selection", "operation": "Apply"})
    assert [await leader.write() for _ in range(2)] == [True, False]
    assert (len(server.written), server.released) == (1, 2)


async def test_changed_subjects_and_foreign_edits_cause_writes() -> None:
    server, store = Server(configuration()), Store()
    selection = writer(server, lambda: bound_subjects(store))
    end = call_on_change(store, selection.wake)
    async with run_in_background(selection.run(), name="selection", ended=pytest.fail):
        await settled(lambda: len(server.written) == 1)
        rule = overrider(entry("*"))
        store.put(rule)
        await settled(lambda: len(server.written) == 2)
        assert server.selection() == SelectedSubjects(frozenset({DEMO}))
        server.present = configuration()
        store.put({**configuration(), "changed": True})
        await settled(lambda: len(server.written) == 3)
        store.remove(key_of(rule))
        await settled(lambda: len(server.written) == 4)
        assert server.selection() == SelectedSubjects()
    end()
    store.put(rule)
    assert len(server.written) == 4


async def test_other_changes_of_overriders_cause_no_write() -> None:
    server, store = Server(configuration()), Store()
    store.put(overrider(entry("*")))
    selection = writer(server, lambda: bound_subjects(store))
    call_on_change(store, selection.wake)
    async with run_in_background(selection.run(), name="selection", ended=pytest.fail):
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
async def test_a_failed_write_is_retried_and_logged_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    server = Server(configuration())
    server.failures = [error, error]
    async with run_in_background(writer(server, lambda: {DEMO}).run(), name="selection", ended=pytest.fail):
        await settled(lambda: server.written)
    assert caplog.text.count("cannot write the match condition bound-to-an-overrider") == 1


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


async def test_the_leader_removes_the_subject_of_a_deleted_overrider_at_once() -> None:
    server, bound = Server(configuration()), {DEMO}
    leader = writer(server, lambda: bound)
    await leader.write()
    bound.clear()
    assert await leader.write()
    assert server.listed() == frozenset()
    # The recreated overrider has a new announcement.
    await announcer(server).announce(NEW)
    assert not await leader.write()
    assert server.listed() == {DEMO}


async def test_the_leader_wakes_when_an_announcement_expires() -> None:
    server = Server(configuration())
    server.add(DEMO)
    async with run_in_background(
        writer(server, lambda: (), announced_seconds=0.05).run(), name="selection", ended=pytest.fail
    ):
        async with asyncio.timeout(20):
            while server.listed():
                await asyncio.sleep(0.01)


async def test_a_write_in_conflict_with_an_announcement_is_retried_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(configuration())
    server.add()
    server.meanwhile = [lambda: server.add(OTHER)]
    async with run_in_background(writer(server, lambda: {DEMO}).run(), name="selection", ended=pytest.fail):
        await settled(lambda: server.listed() == {DEMO, OTHER})
    assert "was not written" not in caplog.text


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


async def test_a_subject_with_a_recreated_overrider_stays_listed() -> None:
    """The leader has received the deletion, but not the new overrider."""
    server, store, now = Server(configuration()), Store(), [100.0]
    former = overrider(entry("*"))
    former["metadata"]["uid"] = "uid-of-former"
    store.put(former)
    leader = writer(server, lambda: bound_subjects(store), clock=lambda: now[0])
    await leader.write()
    await announcer(server).announce(NEW)
    store.remove(key_of(former))
    assert not await leader.write()
    assert server.listed() == {DEMO}
    again = copy.deepcopy(former)
    again["metadata"]["uid"] = NEW.overrider
    store.put(again)
    assert not await leader.write()
    # After the announcement, the store decides about the subject.
    store.remove(key_of(again))
    assert not await leader.write()
    now[0] += 10.1
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


async def test_expired_announcements_are_removed_in_batches() -> None:
    server, now = Server(configuration()), [100.0]
    announcements = [Announcement(SubjectName("default", "YurtAppSet", f"app-{n}"), f"uid-{n}") for n in range(51)]
    leader = writer(server, lambda: [one.subject for one in announcements], clock=lambda: now[0])
    assert await leader.write()
    for one in announcements:
        await announcer(server).announce(one)
        await leader.write()
        now[0] += 0.1
    now[0] += 9.85
    assert not await leader.write()
    assert len(server.announced()) == 51
    now[0] += 0.1
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


ANOTHER = {"apiVersion": API, "kind": "YurtAppSet", "name": "other"}


RULE = overrider(entry("*"), uid="u-7")


def make_configuration(name: str = CONFIGURATION_NAME, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        **fields,
    }


def test_subjects_of_all_clusters_are_found() -> None:
    elsewhere = overrider(entry("*"), name="b", subject=ANOTHER, uid="u-8", annotations={"kcp.io/cluster": "c"})
    broken = {**overrider(entry("*"), name="c"), "subject": "demo"}
    store = store_of(RULE, elsewhere, broken)
    other = DEMO._replace(name="other")
    assert bound_subjects(store) == {DEMO, other}


def test_a_change_of_a_subject_or_of_the_configuration_is_a_call() -> None:
    store = store_of(RULE, yurt_app_set())
    calls: list[int] = []
    end = call_on_change(store, lambda: calls.append(1))

    def count(document: dict[str, Any]) -> int:
        calls.clear()
        store.put(document)
        return len(calls)

    assert count({**RULE, "entries": []}) == 0
    assert count({**RULE, "subject": ANOTHER}) == 1
    assert count(yurt_app_set(replicas=3)) == 0
    assert count(make_configuration("other")) == 0
    assert count(make_configuration()) == 1
    store.remove(key_of(RULE))
    assert len(calls) == 2
    end()
    assert count(RULE) == 0
