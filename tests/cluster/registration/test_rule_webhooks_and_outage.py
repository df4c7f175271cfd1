"""The webhooks of rules as data; tests/e2e/test_rules.py registers them with a real apiserver."""

from typing import Any

import pytest

from fleethook.admission import mutate, validate
from fleethook.admission.rule_in_tests import Rule
from fleethook.admission.rule_scope_and_options import CONTROL_PLANE_TEXT, SYSTEM_NAMESPACES
from fleethook.cluster.registration.rule_webhooks_and_outage import (
    build_rule_configurations,
    describe_outage,
    describe_rule,
    make_webhook,
)
from fleethook.cluster.registration.webhook_configurations import MUTATING, VALIDATING, ServiceReference
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, compile_selector

SERVICE = ServiceReference("fleet", "fleethook")


def hook(rule: object) -> Rule:
    assert isinstance(rule, Rule)
    return rule


@hook
@validate(
    "apps/v1",
    "Deployment",
    on="UPDATE",
    subresource="scale",
    scope="Namespaced",
    namespace_selector={"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    object_selector={"matchLabels": {"a": "b"}},
    match_conditions={"named": "object.metadata.name != ''"},
    failure_policy="Ignore",
    side_effects="NoneOnDryRun",
    timeout=7,
)
def checks_scale(request: object) -> None:
    pass


@hook
@mutate("*", "*", on="CREATE")
def changes() -> None:
    pass


def test_a_configuration_has_all_arguments_of_the_decorator() -> None:
    mutating, validating = build_rule_configurations(
        [checks_scale], SERVICE, name="mine", server="fleet", exempt=["fleet"]
    )
    assert (mutating["kind"], mutating["webhooks"]) == (MUTATING, [])
    assert validating["kind"] == VALIDATING
    assert validating["metadata"] == {
        "name": "mine",
        "labels": {"app.kubernetes.io/name": "fleethook"},
        "annotations": {"fleethook.io/registered-by": "fleet"},
    }
    assert validating["webhooks"] == [
        {
            "name": "checks-scale.rules.fleethook.io",
            "clientConfig": {
                "service": {
                    "namespace": "fleet",
                    "name": "fleethook",
                    "path": "/rules/validate/checks-scale",
                    "port": 443,
                }
            },
            "rules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "resources": ["deployments/scale"],
                    "operations": ["UPDATE"],
                    "scope": "Namespaced",
                }
            ],
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "team", "operator": "Exists"},
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": ["fleet", *SYSTEM_NAMESPACES],
                    },
                ]
            },
            "objectSelector": {"matchLabels": {"a": "b"}},
            "matchConditions": [
                {"name": "named", "expression": "object.metadata.name != ''"},
                {
                    "name": "not-being-deleted",
                    "expression": "request.operation != 'UPDATE' || !has(object.metadata) || "
                    "!has(object.metadata.deletionTimestamp)",
                },
            ],
            "matchPolicy": "Equivalent",
            "failurePolicy": "Ignore",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 7,
            "admissionReviewVersions": ["v1", "v1beta1"],
        }
    ]


def test_webhooks_keep_the_order_of_the_rules() -> None:
    mutating, _ = build_rule_configurations([changes, checks_scale], SERVICE, name="n", server="s", exempt=[])
    (webhook,) = mutating["webhooks"]
    assert webhook["name"] == "changes.rules.fleethook.io"
    assert webhook["rules"][0]["apiGroups"] == ["*"]
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    # A rule for new objects needs no condition about deletions.
    assert [one["name"] for one in make_webhook(changes).conditions] == ["not-control-plane", "not-by-apiserver"]


def checks_nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("NotIn", ["fleet", *SYSTEM_NAMESPACES])]),
        ({"namespaces": "*"}, [("NotIn", ["fleet"])]),
        ({"namespaces": "kube-system"}, [("In", ["kube-system"])]),
        ({"namespaces": ["fleet", "shop"]}, [("In", ["fleet", "shop"])]),
    ],
)
def test_a_rule_gets_system_namespaces_and_that_of_the_server_only_by_name(options: Any, expected: Any) -> None:
    rule = hook(validate("v1", "ConfigMap", **options)(checks_nothing))
    selector = make_webhook(rule, exempt=["fleet"]).namespace_selector
    found = [(one["operator"], one["values"]) for one in selector["matchExpressions"]]
    assert (found, {one["key"] for one in selector["matchExpressions"]}) == (expected, {NAMESPACE_LABEL})


def test_a_rule_never_gets_the_leases_of_the_server() -> None:
    rule = hook(validate("coordination.k8s.io/v1", "Lease", namespaces=["fleet", "shop"])(checks_nothing))
    selects = compile_selector(make_webhook(rule, exempt=["fleet"]).namespace_selector)
    assert [name for name in ("fleet", "shop", "other") if selects({NAMESPACE_LABEL: name})] == ["shop"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            validate("apps/v1", "Deployment", on=("CREATE", "UPDATE"), namespace_selector={"matchLabels": {"a": "b"}}),
            "refused: CREATE, UPDATE of deployments.apps, in namespaces with a=b, except objects in fleet, kube-system, ",
        ),
        (
            validate("*/*", "*", on="*", namespaces="*", failure_policy="Ignore"),
            f"unchecked: CREATE, UPDATE, DELETE, CONNECT of every resource except {CONTROL_PLANE_TEXT}, except objects in fleet (",
        ),
        (
            validate(
                "v1", "Pod", on="CREATE", namespaces=["a", "b"],
                object_selector={
                    "matchExpressions": [
                        {"key": "c", "operator": "NotIn", "values": ["d", "e"]},
                        {"key": "f", "operator": "DoesNotExist"},
                    ],
                },
            ),
            "refused: CREATE of pods, in a, b, with c notin (d,e), !f (checks-nothing.rules.fleethook.io)",
        ),
    ],
)  # fmt: skip
def test_the_effect_of_an_outage_has_the_writes_of_each_webhook(rule: Any, expected: str) -> None:
    _, validating = build_rule_configurations([rule(checks_nothing)], SERVICE, name="n", server="s", exempt=["fleet"])
    (line,) = describe_outage([*validating["webhooks"], {"name": "idle", "rules": []}])
    assert (line.startswith(expected), line.endswith("(checks-nothing.rules.fleethook.io)")) == (True, True), line


def test_a_validating_rule_for_pods_gets_the_subresources_that_change_their_spec() -> None:
    rule = hook(validate("v1", "Pod")(checks_nothing))
    assert make_webhook(rule).resources == ("pods", "pods/ephemeralcontainers", "pods/resize")
    assert make_webhook(hook(mutate("v1", "Pod", on="UPDATE")(checks_nothing))).resources == ("pods",)


def test_a_rule_about_templates_is_one_webhook_for_all_workloads() -> None:
    made = hook(validate("v1", "Pod", templates=True)(checks_nothing))
    found = describe_rule(made)["webhooks"][0]["rules"]
    resources = {one["apiGroups"][0] or one["resources"][0]: one["resources"] for one in found}
    assert resources == {
        "pods": list(make_webhook(made).resources), "replicationcontrollers": ["replicationcontrollers"],
        "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"], "batch": ["cronjobs", "jobs"],
    }  # fmt: skip
    assert {(*one["apiVersions"], *one["operations"]) for one in found} == {("v1", "CREATE", "UPDATE")}
