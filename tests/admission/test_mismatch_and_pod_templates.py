"""The requests that kube-apiserver sends to a rule; tests/e2e/test_rules.py asks a real one."""

from typing import Any

import pytest
from msgspec import Struct

from fleethook.admission import Denied, Request, RuleError, validate
from tests.admission.test_rule_scope_and_options import POD, rule


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        (("v1", "Pod"), {"on": "DELETE"}, "the operation is CREATE, not DELETE"),
        (("apps/v1", "Deployment"), {}, "the object is of core/v1, not of apps/v1"),
        (("v1", "Service"), {}, "the kind is Pod, not Service"),
        (("v1", "Pod"), {"subresource": "eviction"}, "the subresource is none, not eviction"),
        (("v1", "Pod"), {"scope": "Cluster"}, "the object is Namespaced, and the scope of the rule is Cluster"),
        (
            ("v1", "Pod"),
            {"namespace_selector": {"matchLabels": {"team": "web"}}},
            "namespace_selector does not select the labels of the namespace",
        ),
        (
            ("v1", "Pod"),
            {"object_selector": {"matchLabels": {"app": "db"}}},
            "object_selector does not select the labels of the object",
        ),
        (
            ("v1", "Pod"),
            {"match_conditions": {"named": "object.metadata.name == 'b'"}},
            "match_conditions['named'] is false",
        ),
    ],
)
def test_a_rule_that_is_not_asked_says_why(arguments: Any, options: dict[str, Any], reason: str) -> None:
    answer = rule(*arguments, **options).review(POD)
    assert (answer.matched, answer.allowed, answer.reason) == (False, True, reason)


@pytest.mark.parametrize(
    ("arguments", "resource", "reason"),
    [
        (("*/*", "pods"), "", ""),
        (("v1", "services"), "", "the resource is pods, not services"),
        (("*/*", "podtemplates"), "", "the resource is pods, not podtemplates"),
        (("*/*", "services"), "services", ""),
        (("*/*", "*"), "", ""),
    ],
)
def test_a_test_without_a_resource_has_that_of_the_kind(arguments: Any, resource: str, reason: str) -> None:
    assert rule(*arguments).review(POD, resource=resource).reason == reason


def test_a_subresource_has_a_kind_of_its_own() -> None:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "n"}}
    one = rule("apps/v1", "Deployment", subresource="scale", on="UPDATE")
    assert one.review(scale, operation="UPDATE", subresource="scale").matched
    other = one.review(scale, operation="UPDATE", subresource="scale", resource="statefulsets")
    assert other.reason == "the resource is statefulsets, not deployments"
    assert one.review(scale, operation="UPDATE", subresource="status").reason == "the subresource is status, not scale"


def test_all_filters_match() -> None:
    one = rule(
        "v1",
        "pods",
        namespace_selector={"matchLabels": {"team": "web"}},
        object_selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        match_conditions={"created": "request.operation == 'CREATE' && object.metadata.namespace == 'n'"},
        scope="Namespaced",
    )
    assert one.review(POD, namespace_labels={"team": "web"}).matched


def test_a_condition_without_a_result_is_a_failure_of_the_rule() -> None:
    answer = rule(match_conditions={"owned": "object.metadata.annotations.owner == 'x'"}).review(POD)
    assert (answer.allowed, answer.code) == (False, 500)
    assert "match_conditions: expression" in answer.message


def test_a_namespace_is_selected_by_its_own_labels() -> None:
    one = rule("v1", "Namespace", scope="Cluster", namespace_selector={"matchLabels": {"team": "web"}})
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n", "namespace": "n", "labels": {"team": "web"}},
    }
    assert one.review(namespace).matched


@pytest.mark.parametrize("namespace", ["kube-system", "kube-node-lease", "kube-public"])
def test_a_rule_sees_a_system_namespace_only_by_name(namespace: str) -> None:
    pod = POD | {"metadata": {"name": "a", "namespace": namespace}}
    assert rule().review(pod).reason == (
        f"rules see no objects of the namespace {namespace}: give namespaces='*', or name it"
    )
    assert rule(namespaces="*").review(pod).matched
    assert rule(namespaces=namespace).review(pod).matched
    assert rule(namespace_selector={"matchLabels": {"kubernetes.io/metadata.name": namespace}}).review(pod).matched
    assert not rule(namespaces=["shop"]).review(pod).matched
    assert rule(namespaces=["n"]).review(POD).matched


@pytest.mark.parametrize(
    ("group", "version", "kind"),
    [
        ("", "v1", "Event"),
        ("events.k8s.io", "v1", "Event"),
        ("coordination.k8s.io", "v1", "Lease"),
        ("apiregistration.k8s.io", "v1", "APIService"),
        ("authentication.k8s.io", "v1", "TokenReview"),
        ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
        ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ],
)
def test_a_rule_sees_what_a_control_plane_needs_only_by_name(group: str, version: str, kind: str) -> None:
    api_version = f"{group}/{version}" if group else version
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    for every in (("*/*", "*"), (api_version, "*")):
        assert rule(*every).review(document).reason == "match_conditions['not-control-plane'] is false"
    assert rule("*/*", "*", match_conditions={"not-control-plane": "true"}).review(document).matched
    assert rule(api_version, kind).review(document).matched
    assert rule("*/*", "*").review(POD).matched


@pytest.mark.parametrize(
    ("declared", "api_version", "kind", "is_excepted"),
    [
        (("rbac.authorization.k8s.io/v1", "ClusterRole"), "rbac.authorization.k8s.io/v1", "ClusterRole", True),
        (("v1", "Namespace"), "v1", "Namespace", True),
        (("*/*", "*"), "networking.k8s.io/v1", "IPAddress", True),
        (("networking.k8s.io/v1", "*"), "networking.k8s.io/v1", "IPAddress", True),
        (("apps/v1", "Deployment"), "apps/v1", "Deployment", False),
        (("v1", "Pod"), "v1", "Pod", False),
    ],
)
def test_kube_apiserver_may_write_its_own_objects(
    declared: tuple[str, str], api_version: str, kind: str, *, is_excepted: bool
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    assert rule(*declared).review(document, user={"username": "jane"}).matched
    assert rule(*declared).review(document, user={"username": "system:apiserver"}).matched is not is_excepted


@pytest.mark.parametrize(("operation", "matched"), [("CREATE", False), ("UPDATE", False), ("DELETE", False)])
def test_a_rule_does_not_see_mirrors_of_static_pods(operation: Any, *, matched: bool) -> None:
    metadata = {"name": "a", "namespace": "n", "annotations": {"kubernetes.io/config.mirror": "x"}}
    mirror = POD | {"metadata": metadata}
    assert rule(on="*").review(mirror, operation=operation).matched is matched
    assert rule(on="*").review(POD, operation=operation).matched
    assert rule(on="*", match_conditions={"not-a-mirror": "true"}).review(mirror, operation=operation).matched


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_a_rule_for_pods_sees_the_subresources_that_change_their_spec(subresource: str) -> None:
    for declared in (rule("v1", "Pod"), rule("v1", "pods")):
        assert declared.review(POD, operation="UPDATE", subresource=subresource).matched
        assert declared.review(POD, operation="UPDATE", subresource="status").reason == (
            "the subresource is status, not none or ephemeralcontainers or resize"
        )
    assert not rule("v1", "ConfigMap").review(POD, operation="UPDATE", subresource=subresource).matched


@validate("v1", "Pod", on=("CREATE", "UPDATE", "DELETE"), templates=True)
def fixed_tags(pod: Any) -> None:
    for index, one in enumerate(pod.spec.containers):
        if one.image.endswith(":latest"):
            raise Denied(f"{pod.metadata.name}: use a fixed tag", field=f"spec.containers[{index}].image", code=422)


def workload(kind: str, *images: str, api_version: str = "apps/v1") -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    spec: dict[str, Any] = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}}}
    if kind == "CronJob":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        *(("apps/v1", kind, "spec.template") for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
        ("v1", "ReplicationController", "spec.template"),
        ("batch/v1", "Job", "spec.template"),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template"),
    ],
)
def test_a_refusal_has_the_path_of_the_template(api_version: str, kind: str, path: str) -> None:
    answer = fixed_tags.review(workload(kind, "a:1", "b:latest", api_version=api_version))
    field = f"{path}.spec.containers[1].image"
    assert (answer.allowed, answer.code, answer.message) == (False, 422, f"{field}: web: use a fixed tag")
    assert [one.field for one in answer.causes] == [field]
    assert fixed_tags.review(workload(kind, "a:1", api_version=api_version)).allowed
    stored = workload(kind, "b:latest", api_version=api_version)
    assert not fixed_tags.review(stored, operation="DELETE").allowed


def test_other_kinds_and_workloads_without_a_template_are_admitted() -> None:
    other = fixed_tags.review(workload("Widget", "b:latest", api_version="example.org/v1"))
    assert (other.allowed, other.matched) == (True, False)
    empty = fixed_tags.review({**workload("ReplicationController", api_version="v1"), "spec": {}})
    assert (empty.allowed, empty.matched, empty.warnings) == (True, True, ())


def test_a_former_violation_of_a_template_is_admitted_and_a_further_one_is_not() -> None:
    stored = workload("Deployment", "a:latest")
    scaled = {**stored, "spec": {**stored["spec"], "replicas": 2}}
    assert fixed_tags.review(scaled, operation="UPDATE", old=stored).allowed
    further = fixed_tags.review(workload("Deployment", "a:latest", "b:latest"), operation="UPDATE", old=stored)
    assert further.message == "spec.template.spec.containers[1].image: web: use a fixed tag"


def test_all_parameters_and_expressions_are_about_the_pod() -> None:
    class Spec(Struct):
        containers: list[dict[str, Any]]

    class Pod(Struct):
        spec: Spec

    seen: list[Any] = []

    @validate("v1", "Pod", templates=True)
    def sees(pod: Pod, old: Any, request: Request) -> None:
        seen.append((pod.spec.containers[0]["image"], old.spec.containers[0].image))
        seen.append((dict(request.labels), request.object.kind, request.kind.kind, request.name))
        raise Denied("no")

    new, old = workload("Deployment", "a:2"), workload("Deployment", "a:1")
    answer = sees.review(new, operation="UPDATE", old=old)
    assert seen == [("a:2", "a:1"), ({"app": "a"}, "Pod", "Deployment", "web")]
    # Without a field, the message tells that it is about the template.
    assert (answer.message, answer.causes[0].field) == ("spec.template: no", "spec.template")

    @validate("v1", "pods", templates=True, expression="object.spec.containers.size() < 2", message="too many")
    def one_container() -> None:
        pass

    assert one_container.review(workload("Deployment", "a:1")).allowed
    assert one_container.review(workload("Deployment", "a:1", "b:1")).message == "spec.template: too many"


def test_a_failure_keeps_its_message() -> None:
    @validate("v1", "Pod", templates=True)
    def fails(pod: Any) -> None:
        raise Denied(pod.spec.no)

    message = fails.review(workload("Deployment", "a:1")).message
    assert message.startswith(
        "the rule fails failed, and failurePolicy Fail refuses the object: test_mismatch_and_pod_templates.py:"
    )


def test_only_rules_about_pods_have_templates() -> None:
    with pytest.raises(RuleError, match="templates: only a rule about Pods sees those in templates"):
        validate("apps/v1", "Deployment", templates=True)(lambda: None)
