"""The rules of `fleethook doctor`, on registrations with one fault each. tests/e2e/test_doctor.py asks a real apiserver."""

import base64
import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fleethook.admission import mutate, validate
from fleethook.cli.doctor.registered_webhooks import Diagnosis, check_policies, check_registration, find_registered
from fleethook.cluster.registration.rule_webhooks_and_outage import build_rule_configurations
from fleethook.cluster.registration.webhook_configurations import ServiceReference, webhook_configurations
from fleethook.engines.overrider.subject.match_condition_texts import SelectedSubjects, SubjectName, select_workloads
from tests.pki import Authority

SERVICE = ServiceReference("system", "fleethook")


def registration(**options: Any) -> list[dict[str, Any]]:
    return copy.deepcopy(
        webhook_configurations(SERVICE, **{"selecting": False, "exempt_namespaces": ["system"], **options})
    )


def levels(found: Iterable[Diagnosis]) -> list[str]:
    return [one.level for one in found]


def find_webhook(configurations: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for each in configurations for one in each["webhooks"] if one["name"] == name)


def test_the_registration_of_this_version_is_fine() -> None:
    configurations = registration()
    registered = find_registered(configurations)
    (one,) = check_registration(registered)
    assert (one.level, one.text.startswith("13 webhooks of crds, interpret, overrider in ")) == ("ok", True)
    assert levels(check_policies(registered)) == ["ok"]


def test_only_the_engines_that_are_registered_are_expected() -> None:
    (one,) = check_registration(find_registered(registration(engines={"crds"})))
    assert (one.level, one.text.startswith("2 webhooks of crds in ")) == ("ok", True)


def test_webhooks_are_found_in_configurations_of_any_name() -> None:
    configurations = registration()
    for one in configurations:
        one["metadata"]["name"] = "renamed"
    (found,) = check_registration(find_registered(configurations))
    assert found.text.endswith("MutatingWebhookConfiguration renamed, ValidatingWebhookConfiguration renamed")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("operations", ["CREATE"]),
        ("resources", ["deployments/status"]),
        ("apiGroups", ["extensions"]),
        ("apiVersions", ["v2"]),
    ],
)
def test_a_rule_that_lost_a_value_is_an_error(field: str, values: list[str]) -> None:
    configurations = registration()
    find_webhook(configurations, "deployments.overrider.fleethook.io")["rules"][0][field] = values
    assert [one.text for one in check_registration(find_registered(configurations))] == [
        "deployments.overrider.fleethook.io: its rules differ from this version's"
    ]


def listed(configurations: list[dict[str, Any]], selection: SelectedSubjects) -> list[dict[str, Any]]:
    """Add rules and conditions as a leader does."""
    webhooks = {one["name"]: one for one in configurations[0]["webhooks"]}
    for name, members in select_workloads(webhooks, selection).items():
        webhooks[name]["matchConditions"] += members["matchConditions"]
        webhooks[name]["rules"] = members["rules"]
    return configurations


def test_before_the_first_leader_the_webhooks_for_workloads_have_no_rules() -> None:
    (found,) = check_registration(find_registered(registration(selecting=True)))
    assert (found.level, found.check) == ("error", "registration")
    assert found.text.startswith("deployments.overrider.fleethook.io and 3 more: no rules yet, because no leader has ")
    assert "fleethook_leader" in found.remedy


@pytest.mark.parametrize("count", range(2))
def test_a_webhook_that_fails_closed_has_rules_only_if_a_subject_needs_it(count: int) -> None:
    subjects = frozenset(SubjectName("a", "YurtAppSet", str(number)) for number in range(count))
    configurations = listed(registration(selecting=True), SelectedSubjects(subjects))
    (found,) = check_registration(find_registered(configurations))
    assert (found.level, found.text.partition(" ")[0]) == ("ok", "15")
    del find_webhook(configurations, "deployments.optional.overrider.fleethook.io")["rules"]
    (found,) = check_registration(find_registered(configurations))
    assert found.text == "deployments.optional.overrider.fleethook.io: its rules differ from this version's"
    configurations[0]["webhooks"].pop(2)
    (found,) = check_registration(find_registered(configurations))
    assert found.text == "the webhook deployments.optional.overrider.fleethook.io is missing"


def test_a_webhook_that_is_missing_or_twice_is_an_error() -> None:
    configurations = registration()
    twice = {**configurations[0], "metadata": {"name": "second"}, "webhooks": configurations[0]["webhooks"][:1]}
    lost = configurations[1]["webhooks"].pop()["name"]
    texts = [one.text for one in check_registration(find_registered([*configurations, twice]))]
    name = configurations[0]["webhooks"][0]["name"]
    assert texts == [
        f"{name} is registered in MutatingWebhookConfiguration fleethook and MutatingWebhookConfiguration second",
        f"the webhook {lost} is missing",
    ]


def bundle(directory: Path) -> str:
    return base64.b64encode(Authority(directory, "ca").certificate.read_bytes()).decode()


@pytest.mark.parametrize(
    ("name", "policy", "text"),
    [
        ("deployments.overrider.fleethook.io", "Ignore", "admits objects unchecked"),
        ("fit.yurtappset.fleethook.io", "Fail", "only advises on"),
    ],
)
def test_another_failure_policy_is_a_warning(name: str, policy: str, text: str) -> None:
    configurations = registration()
    find_webhook(configurations, name)["failurePolicy"] = policy
    (one,) = check_policies(find_registered(configurations))
    assert (one.level, one.text.startswith(f"{name}: "), text in one.text) == ("warning", True, True)


def test_a_server_that_blocks_its_own_namespace_is_found() -> None:
    (one,) = check_policies(find_registered(registration(exempt_namespaces=[])))
    assert (one.level, "own namespace" in one.text) == ("warning", True)


def test_each_fault_has_a_remedy() -> None:
    broken = registration(exempt_namespaces=[])
    find_webhook(broken, "fit.yurtappset.fleethook.io")["failurePolicy"] = "Fail"
    broken[1]["webhooks"].pop()
    registered = find_registered(broken)
    found = [
        *check_registration(registered), *check_policies(registered), *check_registration([]),
    ]  # fmt: skip
    assert len(found) >= 4
    assert [one for one in found if one.level != "ok" and not one.remedy] == []


@validate("apps/v1", "Deployment")
def needs_owner() -> None:
    pass


@mutate("v1", "Pod")
def changes() -> None:
    pass


@pytest.mark.parametrize(("exempt", "level"), [(["system"], "ok"), ([], "warning")])
def test_the_webhooks_of_rules_are_checked(exempt: list[str], level: str) -> None:
    rules: Any = [needs_owner, changes]
    configurations = build_rule_configurations(rules, SERVICE, name="mine", server="system", exempt=exempt)
    registered = find_registered(configurations)
    (one,) = check_registration(registered)
    assert (one.level, one.text) == (
        "ok",
        "2 webhooks of rules in MutatingWebhookConfiguration mine, ValidatingWebhookConfiguration mine",
    )
    assert levels(check_policies(registered)) == [level]
    for each in configurations:
        each["webhooks"][0]["rules"] = []
    assert levels(check_registration(find_registered(configurations))) == ["error", "error"]
