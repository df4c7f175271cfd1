"""Tests of the order in which the leader applies policies and exempts workloads from the webhook."""

from typing import Any, cast

from app.kube.connection import Connection
from app.kube.errors import APIError
from app.model.openyurt import YURT_APP_SET
from app.overrider.binding import Binding
from app.overrider.policies.mode import MODE_ANNOTATION, Mode
from app.overrider.policy_client import PolicyClient
from app.overrider.policy_keeper import PolicyKeeper
from app.overrider.subject_plans import SubjectPlans
from app.overrider.subject_state import SubjectState
from app.registration.announcements import ANNOUNCED_ANNOTATION, Announcement, write_announcements
from app.registration.match_conditions import SubjectName
from app.registration.webhooks import CONFIGURATION_NAME
from app.store import Store
from tests.builders import entry, image, overrider, pool, yurt_app_set
from tests.overrider.policy_server import API, SERVED, PolicyServer

DEMO = SubjectName("default", "YurtAppSet", "demo")
POOLS = ("beijing",)


def rule_of(tag: str = "2", **fields: Any) -> dict[str, Any]:
    made = overrider(entry("*", items=[image("nginx", f"nginx:{tag}")]), uid="u-2", **fields)
    made["metadata"].setdefault("namespace", "default")
    return made


class Keeping:
    """A keeper with an apiserver in memory and a clock."""

    def __init__(self, default: Mode = Mode.AUTO) -> None:
        self.server, self.store, self.now, self.changes = PolicyServer(), Store(), 0.0, 0
        self.again: float | None = None
        self.message = ""
        client = PolicyClient(cast("Connection", self.server))
        self.keeper = PolicyKeeper(client, self.store, default=default, time=lambda: self.now, changed=self._count)
        self.subject = yurt_app_set(pools=[pool(one) for one in POOLS])
        self.subject["metadata"] |= {"uid": "u-1", "namespace": "default"}

    def _count(self) -> None:
        self.changes += 1

    async def keep(self, rule: dict[str, Any] | None) -> tuple[str, str]:
        """Run a pass; return status and reason of the condition."""
        if rule is not None:
            self.store.put(rule)
            plan = SubjectPlans(YURT_APP_SET, self.subject, rule).plan("Deployment", "beijing", None)
            self.server.digest = plan.digest
        binding = Binding("", YURT_APP_SET, "default", "demo")
        rules = () if rule is None else (rule,)
        at = SubjectState(binding, rules, self.subject, (), POOLS, (), frozenset())
        found = await self.keeper.keep(at)
        self.again, self.message = found.again, found.conditions[0].message if found.conditions else ""
        return (found.conditions[0].status, found.conditions[0].reason) if found.conditions else ("", "")


async def test_workloads_are_exempt_only_after_a_dry_run_has_shown_that_the_policy_acts() -> None:
    at = Keeping()
    at.server.acts = False
    assert await at.keep(rule_of()) == ("Unknown", "Activating")
    assert len(at.server.objects) >= 2
    assert at.keeper.exempt() == set()
    at.server.acts = True
    assert await at.keep(rule_of()) == ("True", "Active")
    assert at.keeper.exempt() == {DEMO}
    assert at.changes == 1


async def test_an_edit_ends_the_exemption_until_the_new_policy_acts() -> None:
    at = Keeping()
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


async def test_the_exemption_ends_before_objects_of_an_edit_are_written() -> None:
    at = Keeping()
    await at.keep(rule_of())
    exempt: list[set[SubjectName]] = []
    at.server.written.append(lambda: exempt.append(at.keeper.exempt()))
    await at.keep(rule_of("3"))
    assert len(exempt) == 2
    assert exempt == [set(), set()]


async def test_while_an_edit_is_announced_the_policies_do_not_come_back() -> None:
    """The edit is admitted and may not be stored yet, so the leader still knows the former version."""
    at = Keeping()
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


async def test_objects_are_applied_again_only_after_a_while() -> None:
    at = Keeping()
    await at.keep(rule_of())
    before = dict(at.server.objects)
    at.server.objects.clear()
    at.now = 29.0
    await at.keep(rule_of())
    assert at.server.objects == {}
    at.now = 30.0
    await at.keep(rule_of())
    assert at.server.objects == before


async def test_the_deletion_of_the_overrider_removes_its_objects() -> None:
    at = Keeping()
    await at.keep(rule_of())
    assert await at.keep(None) == ("", "")
    assert at.server.objects == {}
    assert at.keeper.exempt() == set()


async def test_an_apiserver_without_the_api_ends_the_exemption() -> None:
    at = Keeping()
    await at.keep(rule_of())
    at.server.served = ()
    at.now = 10.0
    assert await at.keep(rule_of()) == ("False", "NotServed")
    assert at.keeper.exempt() == set()


async def test_without_the_api_no_pass_is_repeated_and_subjects_share_one_request() -> None:
    """An older apiserver must not cost more than with the mode webhook."""
    at = Keeping()
    at.server.served = ()
    for now in (0.0, 1.0, 9.0):
        at.now = now
        assert await at.keep(rule_of()) == ("False", "NotServed")
        assert at.again is None
    assert at.server.requests == [("GET", API)]
    at.server.served, at.now = SERVED, 10.0
    assert await at.keep(rule_of()) == ("True", "Active")


async def test_mode_policy_asks_again_for_a_missing_api() -> None:
    at = Keeping(Mode.POLICY)
    at.server.served = ()
    assert await at.keep(rule_of()) == ("False", "NotServed")
    assert at.again is not None


async def test_without_rights_the_webhook_applies_it_and_the_message_has_the_reason() -> None:
    at = Keeping()
    refused = APIError(403, "Forbidden", "mutatingadmissionpolicies is forbidden")
    at.server.refuses = refused
    assert await at.keep(rule_of()) == ("False", "NotApplied")
    assert "the webhook applies it" in at.message
    assert "mutatingadmissionpolicies is forbidden" in at.message
    assert at.keeper.exempt() == set()
    at.server.refuses = None
    assert await at.keep(rule_of()) == ("True", "Active")


async def test_a_refused_request_ends_the_exemption_and_is_reported() -> None:
    at = Keeping()
    await at.keep(rule_of())
    at.server.failures.append(APIError(403, "Forbidden", "no"))
    assert await at.keep(rule_of()) == ("False", "NotApplied")
    assert at.keeper.exempt() == set()
    assert await at.keep(rule_of()) == ("True", "Active")


async def test_objects_that_could_not_be_deleted_are_deleted_later() -> None:
    at = Keeping()
    await at.keep(rule_of())
    at.server.failures.append(APIError(500, "InternalError", "no"))
    await at.keep(None)
    assert at.server.objects
    await at.keep(None)
    assert at.server.objects == {}


async def test_mode_webhook_sends_no_request_and_reports_nothing() -> None:
    at = Keeping(Mode.WEBHOOK)
    assert await at.keep(rule_of()) == ("", "")
    assert at.server.requests == []


async def test_the_annotation_decides_for_its_overrider() -> None:
    at = Keeping(Mode.WEBHOOK)
    assert await at.keep(rule_of(annotations={MODE_ANNOTATION: "auto"})) == ("True", "Active")
    assert await at.keep(rule_of(annotations={MODE_ANNOTATION: "webhook"})) == ("False", "WebhookRequested")
    assert at.server.objects == {}


async def test_a_sweep_deletes_the_policies_of_overriders_without_policies() -> None:
    at = Keeping()
    await at.keep(rule_of())
    before = dict(at.server.objects)
    await at.keeper.sweep()
    assert at.server.objects == before
    at.store.put(rule_of(annotations={MODE_ANNOTATION: "webhook"}))
    await at.keeper.sweep()
    assert not [path for path in at.server.objects if "admissionregistration" in path]


async def test_without_rights_a_sweep_changes_nothing() -> None:
    at = Keeping(Mode.WEBHOOK)
    at.server.failures.append(APIError(403, "Forbidden", "no"))
    await at.keeper.sweep()
    assert len(at.server.requests) == 1
