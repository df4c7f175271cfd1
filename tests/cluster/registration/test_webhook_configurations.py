"""The webhook configurations as data; in tests/e2e, a real apiserver accepts them."""

import re

import pytest
import yaml

from fleethook.app import create_app
from fleethook.cluster.registration.paths import VALIDATE_OVERRIDER
from fleethook.cluster.registration.webhook_configurations import (
    ServiceReference,
    URLReference,
    ca_bundles,
    find_exempt_namespaces,
    service_of,
    webhook_configurations,
)
from fleethook.engines.overrider.subject.match_condition_texts import (
    SelectedSubjects,
    SubjectName,
    list_selected,
    select_workloads,
)
from fleethook.model.admission import AdmissionReview
from fleethook.settings import Settings
from tests.serving import ROOT


@pytest.mark.parametrize("service", ["fleet/hook", "fleet/hook:8443"])
def test_the_namespace_of_the_service_is_exempt(service: str) -> None:
    assert find_exempt_namespaces(Settings(service=service), "other") == ["fleet"]


def test_the_namespace_of_the_pod_is_exempt_with_a_url() -> None:
    assert find_exempt_namespaces(Settings(in_cluster=True, webhook_url="https://hook.example"), "fleet") == ["fleet"]


def test_no_namespace_is_exempt_for_a_server_outside_of_the_cluster() -> None:
    assert find_exempt_namespaces(Settings(webhook_url="https://hook.example"), "fleet") == []


def test_each_webhook_excludes_the_namespace_of_its_server() -> None:
    exempt = find_exempt_namespaces(Settings(service="fleet/hook"), "fleet")
    configurations = webhook_configurations(service_of("fleet/hook"), exempt_namespaces=exempt)
    selectors = [one["namespaceSelector"] for each in configurations for one in each["webhooks"]]
    label = "kubernetes.io/metadata.name"
    assert selectors
    assert all(
        one == {"matchExpressions": [{"key": label, "operator": "NotIn", "values": ["fleet"]}]} for one in selectors
    )


SERVICE = ServiceReference("fleet", "fleethook")


def every(reference: object = SERVICE) -> list[dict[str, object]]:
    made = webhook_configurations(reference, exempt_namespaces=["fleet"], selecting=False)  # type: ignore[arg-type]
    return [webhook for configuration in made for webhook in configuration["webhooks"]]


def is_for_registration(path: str) -> bool:
    """kube-apiserver sends no webhook configurations to webhooks, and dispatch is registered for the tenants' kinds."""
    return not path.startswith(("/clusters/", "/dispatch/", "/observe", "/validate-admissionregistration-"))


def test_each_review_route_is_registered_once() -> None:
    app = create_app(Settings(), log=None)
    reviews = (route.path for route in app.routes_of_reviews if route.review is AdmissionReview)
    routes = [path for path in reviews if is_for_registration(path)]
    paths = [webhook["clientConfig"]["service"]["path"] for webhook in every()]  # type: ignore[index]
    # Deletions of overriders have a webhook of their own, which fails open.
    assert sorted(paths) == sorted([*routes, VALIDATE_OVERRIDER])


def test_only_deletions_of_overriders_are_sent() -> None:
    deleting = [webhook for webhook in every() if webhook["rules"][0]["operations"] != ["CREATE", "UPDATE"]]  # type: ignore[index]
    (webhook,) = deleting
    assert webhook["name"] == "deletion.yurtappoverrider.fleethook.io"
    assert webhook["rules"][0]["operations"] == ["DELETE"]  # type: ignore[index]
    (condition,) = webhook["matchConditions"]  # type: ignore[misc]
    assert condition["expression"] == "!has(oldObject.metadata.deletionTimestamp)", "a deletion has no object"


def test_installers_register_no_rules_for_workloads() -> None:
    """The leader adds them with the list of subjects, so an installation that never becomes ready refuses nothing."""
    bare = {
        webhook["name"]
        for one in webhook_configurations(SERVICE)
        for webhook in one["webhooks"]
        if "rules" not in webhook
    }
    assert bare == set(list_selected())
    chart = yaml.safe_load((ROOT / "charts" / "fleethook" / "generated" / "webhooks.yaml").read_text())[
        "configurations"
    ]
    assert {webhook["name"] for one in chart for webhook in one["webhooks"] if "rules" not in webhook} == bare
    every_rule = {str(webhook["name"]): webhook["rules"] for webhook in every()}
    written = select_workloads(list_selected(), SelectedSubjects(frozenset({SubjectName("a", "YurtAppSet", "x")})))
    # Without a leader, the webhooks that fail closed get all workloads.
    assert {name for name in list_selected() if name in every_rule} == {
        name for name in list_selected() if "optional" not in name
    }
    for name in list_selected():
        assert written[name]["rules"] == every_rule[name.replace(".optional", "")]


def test_only_undeleted_pool_workloads_fail_closed() -> None:
    for webhook in (webhook for one in webhook_configurations(SERVICE) for webhook in one["webhooks"]):
        advice = str(webhook["name"]).startswith(("fit.", "deletion.")) or ".optional." in str(webhook["name"])
        assert webhook["failurePolicy"] == ("Ignore" if advice else "Fail")
        assert webhook["matchPolicy"] == ("Exact" if advice else "Equivalent")
        assert webhook["timeoutSeconds"] == 5
        announces = webhook["name"] == "rules.yurtappoverrider.fleethook.io"
        assert webhook["sideEffects"] == ("NoneOnDryRun" if announces else "None")
        conditions = [condition["name"] for condition in webhook["matchConditions"]]  # type: ignore[index]
        assert "not-being-deleted" in conditions
        if "overrider.fleethook.io" in str(webhook["name"]) and "yurtapp" not in str(webhook["name"]):
            assert webhook["objectSelector"] == {
                "matchExpressions": [{"key": "apps.openyurt.io/pool-name", "operator": "Exists"}]
            }
            assert "owned-by-openyurt" in conditions


def test_mutating_webhooks_request_reinvocation() -> None:
    mutating, validating = webhook_configurations(SERVICE)
    assert {webhook["reinvocationPolicy"] for webhook in mutating["webhooks"]} == {"IfNeeded"}
    assert all("reinvocationPolicy" not in webhook for webhook in validating["webhooks"])


def test_a_url_is_joined_with_one_slash() -> None:
    urls = [webhook["clientConfig"]["url"] for webhook in every(URLReference("https://h:1/"))]  # type: ignore[index]
    assert all(re.fullmatch(r"https://h:1/(mutate|validate)-[a-z0-9-]+", url) for url in urls)


def test_ca_bundles_sets_no_other_field() -> None:
    names = {webhook["name"] for one in webhook_configurations(SERVICE) for webhook in one["webhooks"]}
    bundles = ca_bundles("Q0E=")
    members = [webhook for configuration in bundles for webhook in configuration["webhooks"]]
    assert {webhook["name"] for webhook in members} == names
    assert all(webhook == {"name": webhook["name"], "clientConfig": {"caBundle": "Q0E="}} for webhook in members)


def test_the_service_has_its_dns_names() -> None:
    assert SERVICE.names()[0] == "fleethook.fleet.svc"
