from typing import Any

import pytest
from msgspec import Struct

from fleethook.admission import Denied, Request, RuleError, validate


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
        "the rule fails failed, and failurePolicy Fail refuses the object: test_pod_templates.py:"
    )


def test_only_rules_about_pods_have_templates() -> None:
    with pytest.raises(RuleError, match="templates: only a rule about Pods sees those in templates"):
        validate("apps/v1", "Deployment", templates=True)(lambda: None)
