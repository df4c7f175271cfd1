"""Tests of the order in which the leader applies policies and exempts workloads from the webhook."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.configuration_objects import CONFIGURATION_NAME
from fleethook.cluster.registration.match_conditions import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    SubjectName,
    write_announcements,
)
from fleethook.cluster.store import Store
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.mode import COMPILED_LABEL, MODE_ANNOTATION, PLACES_ANNOTATION, Mode
from fleethook.engines.overrider.policies.policy_client import PolicyClient, PolicyWatch
from fleethook.engines.overrider.policies.policy_keeper import PolicyKeeper
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.lifetime import run_in_background
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import API as API_VERSION
from tests.builders import container, entry, image, overrider, patch, pod_template, pool, yurt_app_set
from tests.engines.overrider.policy_server import API, SERVED, PolicyServer
from tests.waiting import until

DEMO = SubjectName("default", "YurtAppSet", "demo")
POOLS = ("beijing",)
POLICY = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "spec": {}}


def rule_of(tag: str = "2", **fields: Any) -> dict[str, Any]:
    made = overrider(entry("*", items=[image("nginx", f"nginx:{tag}")]), **{"uid": "u-2", **fields})
    made["metadata"].setdefault("namespace", "default")
    return made


def rule_for_other() -> dict[str, Any]:
    """Return the overrider of a second subject."""
    return rule_of(
        name="other-rule", uid="u-3", subject={"apiVersion": API_VERSION, "kind": "YurtAppSet", "name": "other"}
    )


class Keeping:
    """A keeper with an apiserver in memory and a clock."""

    def __init__(self, default: Mode = Mode.AUTO, limit: int = 100) -> None:
        self.server, self.store, self.now, self.changes = PolicyServer(), Store(), 0.0, 0
        self.again: float | None = None
        self.message = ""
        self.queued: list[Binding] = []
        self.edit_reads = 0
        client = PolicyClient(cast("Connection", self.server))
        self.watch = PolicyWatch(self.server, absent_seconds=0.01)
        self.keeper = PolicyKeeper(
            client, self.watch, self.store, default=default, limit=limit, time=lambda: self.now,
            read_edits=self._read_edits, changed=self._count,
        )  # fmt: skip
        self.subject = yurt_app_set(pools=[pool(one) for one in POOLS])
        self.subject["metadata"] |= {"uid": "u-1", "namespace": "default"}

    def _count(self) -> None:
        self.changes += 1

    async def _read_edits(self) -> None:
        self.edit_reads += 1

    async def keep(self, rule: dict[str, Any] | None, *, name: str = "demo") -> tuple[str, str]:
        """Run a pass over a subject; return status and reason of the condition."""
        subject = {**self.subject, "metadata": {**self.subject["metadata"], "name": name}}
        if rule is not None:
            self.store.put(rule)
            plan = SubjectPlans(YURT_APP_SET, subject, rule).plan("Deployment", "beijing", None)
            self.server.digest = plan.digest
        rules = () if rule is None else (rule,)
        at = SubjectState(binding_of(name), rules, subject, (), POOLS, (), frozenset())
        found = await self.keeper.keep(at)
        self.again, self.message = found.again, found.conditions[0].message if found.conditions else ""
        return (found.conditions[0].status, found.conditions[0].reason) if found.conditions else ("", "")


def binding_of(name: str) -> Binding:
    return Binding("", YURT_APP_SET, "default", name)


Start = Callable[..., Awaitable[Keeping]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts keepers with their watch."""
    ended: list[str] = []
    async with AsyncExitStack() as stack:

        async def begin(default: Mode = Mode.AUTO, limit: int = 100) -> Keeping:
            made = Keeping(default, limit)
            run = made.keeper.run(made.queued.append)
            await stack.enter_async_context(run_in_background(run, name="policies", ended=ended.append))
            return made

        yield begin
    assert ended == []


async def test_workloads_are_exempt_only_after_a_dry_run_has_shown_that_the_policy_acts(start: Start) -> None:
    at = await start()
    at.server.acts = False
    assert await at.keep(rule_of()) == ("Unknown", "Activating")
    assert len(at.server.objects) >= 2
    assert at.keeper.exempt() == set()
    at.server.acts = True
    assert await at.keep(rule_of()) == ("True", "Active")
    assert at.keeper.exempt() == {DEMO}
    assert at.changes == 1


async def test_an_edit_ends_the_exemption_until_the_new_policy_acts(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    before = set(at.server.objects)
    at.server.acts = False
    assert await at.keep(rule_of("3")) == ("Unknown", "Activating")
    assert at.keeper.exempt() == set()
    at.server.acts = True
    assert await at.keep(rule_of("3")) == ("True", "Active")
    assert at.keeper.exempt() == {DEMO}
    assert set(at.server.objects) != before
    assert len(at.server.objects) == len(before)


async def test_the_exemption_ends_before_objects_of_an_edit_are_written(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    exempt: list[set[SubjectName]] = []
    at.server.written.append(lambda: exempt.append(at.keeper.exempt()))
    await at.keep(rule_of("3"))
    assert len(exempt) == 2
    assert exempt == [set(), set()]


async def test_while_an_edit_is_announced_the_policies_do_not_come_back(start: Start) -> None:
    """The edit is admitted and may not be stored yet, so the leader still knows the former version."""
    at = await start()
    await at.keep(rule_of())
    at.server.objects.clear()
    announced = write_announcements([Announcement(DEMO, "r-1"), Announcement(DEMO._replace(name="other"), "r-2")])
    at.store.put({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION_NAME, "annotations": {ANNOUNCED_ANNOTATION: announced}},
    })  # fmt: skip
    at.now = 40.0
    assert await at.keep(rule_of()) == ("Unknown", "Activating")
    assert (at.server.objects, at.keeper.exempt(), at.again) == ({}, set(), 10.0)
    at.now = 49.0
    assert await at.keep(rule_of("3")) == ("Unknown", "Activating")
    assert (at.server.objects, at.again) == ({}, 1.0)
    at.now = 50.0
    assert await at.keep(rule_of("3")) == ("True", "Active")
    assert at.server.objects


async def test_a_pass_over_current_policies_sends_no_request_and_no_later_pass_is_planned(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    at.server.requests.clear()
    assert await at.keep(rule_of()) == ("True", "Active")
    assert (at.server.requests, at.again) == ([], None)


@pytest.mark.parametrize("plural", ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"])
async def test_a_deleted_object_is_applied_again(start: Start, plural: str) -> None:
    at = await start()
    await at.keep(rule_of())
    before = {path: one["spec"] for path, one in at.server.objects.items()}
    at.queued.clear()
    for path in before:
        if f"/{plural}/" in path:
            at.server.remove(path)
    await until(lambda: at.queued == [binding_of("demo")])
    at.server.acts = False
    assert await at.keep(rule_of()) == ("Unknown", "Activating")
    assert at.keeper.exempt() == set()
    assert {path: one["spec"] for path, one in at.server.objects.items()} == before


async def test_a_changed_object_is_applied_again(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    at.queued.clear()
    path = next(path for path in at.server.objects if "mutatingadmissionpolicies" in path)
    changed = {**at.server.objects[path], "spec": {"failurePolicy": "Fail"}}
    at.server.store(path, changed)
    await until(lambda: at.queued == [binding_of("demo")])
    await at.keep(rule_of())
    assert at.server.objects[path]["spec"] != {"failurePolicy": "Fail"}


async def test_objects_come_back_only_after_the_announced_edits_were_read(start: Start) -> None:
    """The deletion of a binding may arrive before the announcement of the edit that deleted it."""
    at = await start()
    await at.keep(rule_of())
    assert at.edit_reads == 1
    await at.keep(rule_of())
    assert at.edit_reads == 1
    at.queued.clear()
    for path in [one for one in at.server.objects if "bindings" in one]:
        at.server.remove(path)
    await until(lambda: bool(at.queued))
    await at.keep(rule_of())
    assert at.edit_reads == 2


async def test_overriders_beyond_the_limit_stay_with_the_webhook_until_there_is_room(start: Start) -> None:
    at = await start(limit=1)
    other = rule_for_other()
    assert await at.keep(rule_of()) == ("True", "Active")
    assert await at.keep(other, name="other") == ("False", "LimitReached")
    assert "policy_limit" in at.message
    assert len([path for path in at.server.objects if "policies" in path]) == 1
    at.queued.clear()
    await at.keep(None)
    await until(lambda: binding_of("other") in at.queued)
    assert await at.keep(other, name="other") == ("True", "Active")


async def test_room_without_any_object_is_offered_when_its_subject_gives_it_back(start: Start) -> None:
    at = await start(limit=1)
    at.server.refuses = APIError(403, "Forbidden", "no")
    assert await at.keep(rule_of()) == ("False", "NotApplied")
    at.server.refuses = None
    assert await at.keep(rule_for_other(), name="other") == ("False", "LimitReached")
    at.queued.clear()
    await at.keep(None)
    assert at.queued == [binding_of("other")]


async def test_policies_that_a_former_leader_has_applied_keep_their_room(start: Start) -> None:
    at = await start(limit=1)
    metadata = {"name": "former", "labels": {COMPILED_LABEL: "u-3"}}
    at.server.store(f"{API}/mutatingadmissionpolicies/former", {**POLICY, "metadata": metadata})
    assert await at.keep(rule_of()) == ("False", "LimitReached")
    other = rule_for_other()
    assert await at.keep(other, name="other") == ("True", "Active")


async def test_a_large_policy_of_a_former_leader_takes_several_places(start: Start) -> None:
    at = await start(limit=4)
    metadata = {"name": "former", "labels": {COMPILED_LABEL: "u-3"}, "annotations": {PLACES_ANNOTATION: "4"}}
    at.server.store(f"{API}/mutatingadmissionpolicies/former", {**POLICY, "metadata": metadata})
    assert await at.keep(rule_of()) == ("False", "LimitReached")


async def test_a_large_policy_takes_several_places(start: Start) -> None:
    at = await start(limit=2)
    names = [f"c{number}" for number in range(8)]
    ports = [{"name": f"p{number}", "containerPort": number + 1} for number in range(3)]
    containers = [container(name, ports=ports, env=[{"name": name, "value": "1"}]) for name in names]
    at.subject = yurt_app_set(pools=[pool(one) for one in POOLS], template=pod_template(containers=containers))
    at.subject["metadata"] |= {"uid": "u-1", "namespace": "default"}
    large = rule_of()
    values = [f"/spec/template/spec/containers/{number}/env/0/value" for number in range(8)]
    large["entries"] = [entry("*", patches=[patch("replace", one, "2") for one in values])]
    assert await at.keep(large) == ("False", "LimitReached")
    assert at.server.objects == {}


async def test_a_limit_of_0_sends_no_write(start: Start) -> None:
    at = await start(limit=0)
    assert await at.keep(rule_of()) == ("False", "LimitReached")
    assert at.server.requests == []


async def test_the_deletion_of_the_overrider_removes_its_objects(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    assert await at.keep(None) == ("", "")
    assert at.server.objects == {}
    assert at.keeper.exempt() == set()


async def test_an_apiserver_without_the_api_ends_the_exemption(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    at.queued.clear()
    at.server.serve()
    await until(lambda: binding_of("demo") in at.queued)
    assert await at.keep(rule_of()) == ("False", "NotServed")
    assert at.keeper.exempt() == set()
    at.server.serve(*SERVED)
    at.queued.clear()
    # Each of the two kinds queues the overrider when it is served again.
    await until(lambda: binding_of("demo") in at.queued and at.watch.is_served)
    assert await at.keep(rule_of()) == ("True", "Active")


async def test_without_the_api_no_pass_is_repeated_and_no_request_depends_on_the_number_of_subjects(
    start: Start,
) -> None:
    """An older apiserver must not cost more than with the mode webhook."""
    at = await start()
    at.server.serve()
    for _ in range(3):
        assert await at.keep(rule_of()) == ("False", "NotServed")
        assert at.again is None
    assert at.server.requests == []


async def test_without_rights_the_webhook_applies_it_and_the_message_has_the_reason(start: Start) -> None:
    at = await start()
    refused = APIError(403, "Forbidden", "mutatingadmissionpolicies is forbidden")
    at.server.refuses = refused
    assert await at.keep(rule_of()) == ("False", "NotApplied")
    assert "the webhook applies it" in at.message
    assert "mutatingadmissionpolicies is forbidden" in at.message
    assert at.keeper.exempt() == set()
    at.server.refuses = None
    assert await at.keep(rule_of()) == ("True", "Active")


async def test_a_refused_request_ends_the_exemption_and_is_reported(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    at.server.denied.append(APIError(403, "Forbidden", "no"))
    assert await at.keep(rule_of("3")) == ("False", "NotApplied")
    assert at.keeper.exempt() == set()
    assert await at.keep(rule_of("3")) == ("True", "Active")


async def test_objects_that_could_not_be_deleted_are_deleted_later(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    at.server.denied.append(APIError(500, "InternalError", "no"))
    await at.keep(None)
    assert at.server.objects
    await at.keep(None)
    assert at.server.objects == {}


async def test_mode_webhook_sends_no_request_and_reports_nothing(start: Start) -> None:
    at = await start(Mode.WEBHOOK)
    assert await at.keep(rule_of()) == ("", "")
    assert at.server.requests == []


async def test_the_annotation_decides_for_its_overrider(start: Start) -> None:
    at = await start(Mode.WEBHOOK)
    assert await at.keep(rule_of(annotations={MODE_ANNOTATION: "auto"})) == ("True", "Active")
    assert await at.keep(rule_of(annotations={MODE_ANNOTATION: "webhook"})) == ("False", "WebhookRequested")
    assert at.server.objects == {}


async def test_a_sweep_deletes_the_policies_of_overriders_without_policies(start: Start) -> None:
    at = await start()
    await at.keep(rule_of())
    before = dict(at.server.objects)
    await at.keeper.sweep()
    assert at.server.objects == before
    at.store.put(rule_of(annotations={MODE_ANNOTATION: "webhook"}))
    await at.keeper.sweep()
    assert not [path for path in at.server.objects if "admissionregistration" in path]


async def test_without_rights_a_sweep_changes_nothing(start: Start) -> None:
    at = await start(Mode.WEBHOOK)
    at.server.denied.append(APIError(403, "Forbidden", "no"))
    await at.keeper.sweep()
    assert len(at.server.requests) == 1
