"""Writing the match condition, against an apiserver in memory; tests/e2e/test_selection.py has a real one."""

import asyncio
import logging
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.registration.match_conditions import Selection
from fleethook.cluster.registration.webhooks import list_selected, select_workloads
from fleethook.cluster.store import Store, key_of
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION, Mode
from fleethook.engines.overrider.subject.bound_subjects import bound_subjects, call_on_change
from fleethook.lifetime import run_in_background
from tests.builders import entry, overrider
from tests.cluster.registration.apiserver import DEMO, NEW, OTHER, Server, announcer, configuration, writer
from tests.waiting import settled


async def test_only_the_condition_of_the_workload_webhooks_is_written() -> None:
    server = Server(configuration())
    assert await writer(server, lambda: {DEMO}).write()
    wanted = select_workloads(list_selected(), Selection(frozenset({DEMO})))
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
    selection = writer(server, lambda: bound_subjects(store, Mode.AUTO))
    end = call_on_change(store, selection.wake)
    async with run_in_background(selection.run(), name="selection", ended=pytest.fail):
        await settled(lambda: len(server.written) == 1)
        rule = overrider(entry("*"))
        store.put(rule)
        await settled(lambda: len(server.written) == 2)
        assert server.selection() == Selection(frozenset({DEMO}))
        server.present = configuration()
        store.put({**configuration(), "changed": True})
        await settled(lambda: len(server.written) == 3)
        store.put({**rule, "metadata": {**rule["metadata"], "annotations": {MODE_ANNOTATION: "policy"}}})
        await settled(lambda: len(server.written) == 4)
        assert server.selection() == Selection(frozenset(), frozenset({DEMO}))
        store.remove(key_of(rule))
        await settled(lambda: len(server.written) == 5)
        assert server.selection() == Selection()
    end()
    store.put(rule)
    assert len(server.written) == 5


async def test_other_changes_of_overriders_cause_no_write() -> None:
    server, store = Server(configuration()), Store()
    store.put(overrider(entry("*")))
    selection = writer(server, lambda: bound_subjects(store, Mode.AUTO))
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
    monkeypatch.setattr("fleethook.cluster.registration.condition_writer._ANNOUNCED_SECONDS", 0.05)
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


@pytest.mark.parametrize("fails_open", [False, True])
async def test_an_announced_subject_is_not_covered(fails_open: bool) -> None:
    server = Server(configuration())
    bound = Selection(frozenset(), frozenset({DEMO})) if fails_open else Selection(frozenset({DEMO}))
    selection = writer(server, lambda: bound, exempt=lambda: {DEMO, OTHER})
    await selection.write()
    # The mode ``policy`` outlasts the policy.
    assert server.selection() == Selection(frozenset(), bound.open, frozenset({DEMO}))
    await announcer(server).announce(NEW, fails_open=fails_open)
    assert server.selection() == bound
    assert not await selection.write()


@pytest.mark.parametrize("fails_open", [False, True])
async def test_an_announced_subject_that_the_leader_does_not_know_keeps_its_set(fails_open: bool) -> None:
    server = Server(configuration())
    leader = writer(server, lambda: ())
    await leader.write()
    await announcer(server).announce(NEW, fails_open=fails_open)
    assert not await leader.write()
    assert server.selection() == Selection().move(DEMO, fails_open=fails_open)


async def test_a_webhook_without_workloads_has_no_rules() -> None:
    server = Server(configuration())
    assert await writer(server, lambda: Selection(frozenset(), frozenset({DEMO}))).write()
    assert server.present is not None
    selected = [one for one in server.present["webhooks"] if one["name"] in list_selected()]
    ruled = [one["name"] for one in selected if one["rules"]]
    assert ruled == ["deployments.optional.overrider.fleethook.io", "statefulsets.optional.overrider.fleethook.io"]
    # A rollback to an installer that sets rules still sends nothing.
    others = [one["matchConditions"][-1] for one in selected if not one["rules"]]
    assert others == [{"name": "bound-to-an-overrider", "expression": "false"}] * 2


async def test_a_registration_of_an_earlier_version_gets_all_workloads_in_its_own_webhooks() -> None:
    """The image is newer than the chart, so the optional webhooks are missing."""
    present = configuration()
    present["webhooks"] = [one for one in present["webhooks"] if ".optional." not in one["name"]]
    server = Server(present)
    leader = writer(server, lambda: Selection(frozenset({DEMO}), frozenset({OTHER})))
    assert [await leader.write() for _ in range(2)] == [True, False]
    ruled = [one["name"] for one in present["webhooks"] if one["name"] in list_selected()]
    assert ruled == [name for name in list_selected() if ".optional." not in name]
    assert server.present is not None
    condition = server.present["webhooks"][0]["matchConditions"][-1]
    assert "fleethook.io/rendered" in condition["expression"]
    assert server.selection() == Selection(frozenset({DEMO}), frozenset({OTHER}))
