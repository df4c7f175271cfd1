"""Writing the match condition, against an apiserver in memory; tests/e2e/test_selection.py has a real one."""

import asyncio
import logging
from typing import Any

import pytest

from app.kube.errors import APIError, UnreachableError
from app.lifetime import run_in_background
from app.overrider.bound_subjects import (
    bound_subjects,
    call_on_change,
)
from app.registration.match_conditions import bound_condition
from app.registration.webhooks import SELECTED, selected_rules
from app.store import Store
from app.store.store import key_of
from tests.builders import entry, overrider
from tests.registration.apiserver import (
    DEMO,
    NEW,
    OTHER,
    Server,
    announcer,
    configuration,
    writer,
)
from tests.waiting import settled


async def test_only_the_condition_of_the_workload_webhooks_is_written() -> None:
    server = Server(configuration())
    assert await writer(server, lambda: {DEMO}).write()
    assert server.written == [
        [
            {"name": name, "rules": selected_rules(name), "matchConditions": [bound_condition({DEMO})]}
            for name in SELECTED
        ]
    ]
    assert len(SELECTED) == 2


async def test_an_equal_condition_is_not_written() -> None:
    server = Server(configuration())
    selection = writer(server, lambda: {DEMO})
    assert [await selection.write() for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("present", [None, {}, {"webhooks": [{"name": "other.io"}]}])
async def test_missing_webhooks_are_not_created(present: Any) -> None:
    server = Server(present)
    assert not await writer(server, lambda: {DEMO}).write()
    assert server.written == []


async def test_changed_subjects_and_foreign_edits_cause_writes() -> None:
    server, store = Server(configuration()), Store()
    selection = writer(server, lambda: bound_subjects(store))
    end = call_on_change(store, selection.wake)
    async with run_in_background(selection.run(), name="selection", ended=pytest.fail):
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


async def test_the_leader_wakes_when_an_announcement_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.registration.condition_writer._ANNOUNCED_SECONDS", 0.05)
    server = Server(configuration())
    server.add(DEMO)
    async with run_in_background(writer(server, lambda: ()).run(), name="selection", ended=pytest.fail):
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


async def test_an_announced_subject_is_not_exempt() -> None:
    server = Server(configuration())
    selection = writer(server, lambda: {DEMO}, exempt=lambda: {DEMO, OTHER})
    await selection.write()
    assert server.written[-1][0]["matchConditions"] == [bound_condition({DEMO}, exempt={DEMO})]
    await announcer(server).announce(NEW)
    assert server.written[-1][0]["matchConditions"] == [bound_condition({DEMO})]
    assert not await selection.write()
