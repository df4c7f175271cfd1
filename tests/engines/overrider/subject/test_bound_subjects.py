"""Tests of the subjects that have an overrider, and of the calls when they change."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.registration.configuration_objects import CONFIGURATION_NAME
from fleethook.cluster.registration.match_conditions import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    Selection,
    SubjectName,
    write_announcements,
)
from fleethook.cluster.store import key_of
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION, Mode
from fleethook.engines.overrider.subject.bound_subjects import (
    announce_overrider,
    announced_edits,
    bound_subjects,
    call_on_change,
    conclude_overrider,
    lists_without_leader,
    overrider_uids,
    runs_selection,
    suspend_policies,
)
from fleethook.model.admission import Response
from fleethook.settings import Settings
from tests.builders import API, entry, overrider, request, store_of, yurt_app_set

DEMO = SubjectName("default", "YurtAppSet", "demo")
OTHER = {"apiVersion": API, "kind": "YurtAppSet", "name": "other"}
RULE = overrider(entry("*"), uid="u-7")


def configuration(name: str = CONFIGURATION_NAME, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        **fields,
    }


def test_subjects_and_uids_of_all_clusters_are_found() -> None:
    elsewhere = overrider(entry("*"), name="b", subject=OTHER, uid="u-8", annotations={"kcp.io/cluster": "c"})
    broken = {**overrider(entry("*"), name="c"), "subject": "demo"}
    store = store_of(RULE, elsewhere, broken)
    other = DEMO._replace(name="other")
    assert bound_subjects(store, Mode.AUTO) == Selection(frozenset({DEMO, other}))
    assert bound_subjects(store, Mode.POLICY) == Selection(frozenset(), frozenset({DEMO, other}))
    store.put({**RULE, "metadata": {**RULE["metadata"], "annotations": {MODE_ANNOTATION: "policy"}}})
    assert bound_subjects(store, Mode.WEBHOOK) == Selection(frozenset({other}), frozenset({DEMO}))
    assert overrider_uids(store) == {"u-7", "u-8", ""}


@pytest.mark.parametrize(
    ("fields", "announced"),
    [
        ({}, [Announcement(DEMO, "u-7")]),
        ({"operation": "UPDATE", "old": RULE}, []),
        ({"dryRun": True}, []),
        ({"subResource": "status"}, []),
    ],
)
async def test_only_a_creation_is_announced(fields: dict[str, Any], announced: list[Announcement]) -> None:
    calls: list[Announcement] = []

    async def announce(announcement: Announcement, *, fails_open: bool) -> None:
        assert not fails_open
        calls.append(announcement)

    await announce_overrider(request(RULE, **fields), Response(allowed=True), announce=announce, default=Mode.AUTO)
    assert calls == announced


async def test_a_refused_overrider_is_not_announced() -> None:
    async def announce(announcement: Announcement, *, fails_open: bool) -> None:
        raise AssertionError(announcement, fails_open)

    await announce_overrider(request(RULE), Response(allowed=False), announce=announce, default=Mode.AUTO)


def test_a_change_of_a_subject_or_of_the_configuration_is_a_call() -> None:
    store = store_of(RULE, yurt_app_set())
    calls: list[int] = []
    end = call_on_change(store, lambda: calls.append(1))

    def count(document: dict[str, Any]) -> int:
        calls.clear()
        store.put(document)
        return len(calls)

    assert count({**RULE, "entries": []}) == 0
    assert count({**RULE, "subject": OTHER}) == 1
    assert count(yurt_app_set(replicas=3)) == 0
    assert count(configuration("other")) == 0
    assert count(configuration()) == 1
    store.remove(key_of(RULE))
    assert len(calls) == 2
    end()
    assert count(RULE) == 0


EDITED = overrider(entry("hangzhou"), uid="u-7")


async def suspend(document: dict[str, Any] | None, default: Mode, **fields: Any) -> list[Any]:
    calls: list[Any] = []

    async def announce(announcement: Announcement, *, fails_open: bool) -> None:
        calls.append((announcement, fails_open))

    async def unbind(uid: str) -> bool:
        calls.append(uid)
        raise APIError(403, "Forbidden", "no")

    given = {"operation": "UPDATE", "old": RULE, "uid": "r-1", **fields}
    await conclude_overrider(
        request(document, **given), Response(allowed=True), announce=announce, unbind=unbind, default=default
    )
    return calls


async def test_an_edit_ends_the_exemption_before_it_deletes_the_bindings() -> None:
    announced = Announcement(DEMO, str(request(RULE).uid))
    ((first, fails_open), second) = await suspend(EDITED, Mode.AUTO)
    assert not fails_open
    assert first.subject == announced.subject
    assert first.overrider not in ("", "u-7")
    assert second == "u-7"


@pytest.mark.parametrize(("found", "expected"), [([True, False], 1), ([False], 0), ([True, True, True], 2)])
async def test_an_edit_is_admitted_after_apiservers_have_dropped_the_policies(found: list[bool], expected: int) -> None:
    """The leader may send a binding once more before it knows of the edit."""
    pauses: list[float] = []

    async def announce(announcement: Announcement, *, fails_open: bool) -> None:
        assert (announcement.subject, fails_open, pauses) == (DEMO, False, [])

    async def unbind(_: str) -> bool:
        return found.pop(0)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    await suspend_policies(
        request(EDITED, operation="UPDATE", old=RULE), Response(allowed=True),
        announce=announce, unbind=unbind, default=Mode.AUTO, sleep=sleep,
    )  # fmt: skip
    assert len(pauses) == expected
    # kube-apiserver compiles policies once a second, and waits five seconds for the webhook.
    assert all(one > 1.0 for one in pauses)
    assert sum(pauses) < 3.5


def test_announced_edits_are_found_in_the_own_configuration() -> None:
    edit, creation = Announcement(DEMO, "r-1"), Announcement(DEMO, "u-7")
    metadata = {"annotations": {ANNOUNCED_ANNOTATION: write_announcements([edit, creation])}}
    own, other = configuration(), configuration("other")
    for one in (own, other):
        one["metadata"] |= metadata
    assert announced_edits(store_of(RULE, own)) == {edit}
    assert announced_edits(store_of(RULE, other)) == frozenset()
    assert announced_edits(store_of(RULE, configuration())) == frozenset()


async def test_a_deletion_ends_the_exemption_too() -> None:
    ((first, fails_open), second) = await suspend(None, Mode.AUTO, operation="DELETE")
    assert (first.subject, fails_open, second) == (DEMO, False, "u-7")


@pytest.mark.parametrize(("mode", "expected"), [("policy", True), ("auto", False), ("webhook", False)])
async def test_the_mode_of_the_edited_overrider_decides_about_writes_without_a_response(
    mode: str, expected: bool
) -> None:
    edited = {**EDITED, "metadata": {**EDITED["metadata"], "annotations": {MODE_ANNOTATION: mode}}}
    assert (await suspend(edited, Mode.AUTO))[0][1] is expected
    deleted = await suspend(None, Mode.AUTO, operation="DELETE", old=edited)
    assert [one[1] for one in deleted if isinstance(one, tuple)] == ([] if mode == "webhook" else [expected])


@pytest.mark.parametrize(
    ("document", "default", "fields"),
    [
        (RULE, Mode.AUTO, {}),
        ({**RULE, "status": {"summary": "1/1"}}, Mode.AUTO, {}),
        (EDITED, Mode.WEBHOOK, {}),
        (EDITED, Mode.AUTO, {"dryRun": True}),
        (EDITED, Mode.AUTO, {"subResource": "status"}),
    ],
)
async def test_other_updates_change_no_policy(document: dict[str, Any], default: Mode, fields: dict[str, Any]) -> None:
    assert await suspend(document, default, **fields) == []


KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "leader", "replicas"),
    [
        ({**INSTALLED, "registration": "ca-bundle"}, True, False),
        ({**INSTALLED, "registration": "all"}, True, False),
        ({**INSTALLED, "controller": True}, True, False),
        ({**INSTALLED, "registration": "ca-bundle", "controller": False}, False, True),
        ({**INSTALLED, "controller": False}, False, True),
        ({**INSTALLED, "controller": False, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "kcp": True}, False, False),
        ({**INSTALLED, "controller": False, "kcp": True}, False, False),
        # A server without an address of its own writes nothing.
        (KUBECONFIG, False, False),
        ({**KUBECONFIG, "controller": False}, False, False),
        ({"manifests": Path()}, False, False),
    ],
)
def test_the_leader_keeps_the_selection_and_without_a_controller_each_replica_does(
    given: dict[str, Any], *, leader: bool, replicas: bool
) -> None:
    settings = Settings(**given)
    assert (runs_selection(settings), lists_without_leader(settings)) == (leader, replicas)
