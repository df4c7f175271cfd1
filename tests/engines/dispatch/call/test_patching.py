"""Patches have limits, and large ones are applied in a thread with the same result."""

import json
import threading
from importlib import resources
from typing import Any, Final

import pytest

from fleethook.engines.dispatch.call import patching
from fleethook.engines.dispatch.call.patching import (
    explain_wrong_kind,
    explain_wrong_member,
    explain_wrong_metadata,
)
from fleethook.model.gvk import GroupVersionKind
from tests.engines.dispatch.builders import configuration, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, apply_response, hook, patch

RBAC: Final = "rbac.authorization.k8s.io/v1"
CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
WIDGET: Final = GroupVersionKind("example.org", "v1", "Widget")
OWNER: Final = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}
REFUSED: Final[list[tuple[dict[str, Any], str]]] = [
    ({"labels": ["a"]}, "array into Go struct field ObjectMeta.metadata.labels of type map[string]string"),
    ({"labels": "a"}, "string into Go struct field ObjectMeta.metadata.labels of type map[string]string"),
    ({"labels": {"a": 1}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
    ({"annotations": {"a": True}}, "bool into Go struct field ObjectMeta.metadata.annotations of type string"),
    ({"annotations": {"a": {}}}, "object into Go struct field ObjectMeta.metadata.annotations of type string"),
    ({"finalizers": [1]}, "number into Go struct field ObjectMeta.metadata.finalizers of type string"),
    ({"finalizers": "x"}, "string into Go struct field ObjectMeta.metadata.finalizers of type []string"),
    ({"finalizers": {}}, "object into Go struct field ObjectMeta.metadata.finalizers of type []string"),
    ({"ownerReferences": {}}, "object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference"),
    ({"ownerReferences": ["x"]}, "string into Go struct field ObjectMeta.metadata.ownerReferences of type v1.OwnerReference"),
    ({"ownerReferences": [{**OWNER, "controller": "yes"}]},
     "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool"),
    ({"name": 1}, "number into Go struct field ObjectMeta.metadata.name of type string"),
    ({"namespace": 1}, "number into Go struct field ObjectMeta.metadata.namespace of type string"),
    ({"generateName": 1}, "number into Go struct field ObjectMeta.metadata.generateName of type string"),
    ({"generation": "x"}, "string into Go struct field ObjectMeta.metadata.generation of type int64"),
    ({"generation": 1.5}, "number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64"),
    ({"generation": 1.0}, "number 1.0 into Go struct field ObjectMeta.metadata.generation of type int64"),
    ({"uid": 1}, "number into Go struct field ObjectMeta.metadata.uid of type types.UID"),
    ({"resourceVersion": 1}, "number into Go struct field ObjectMeta.metadata.resourceVersion of type string"),
    ({"selfLink": 1}, "number into Go struct field ObjectMeta.metadata.selfLink of type string"),
    ({"creationTimestamp": "yesterday"}, 'parsing time "yesterday"'),
    ({"creationTimestamp": 1}, "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"),
    ({"deletionTimestamp": "yesterday"}, 'parsing time "yesterday"'),
    ({"deletionGracePeriodSeconds": "x"},
     "string into Go struct field ObjectMeta.metadata.deletionGracePeriodSeconds of type int64"),
    ({"managedFields": {}}, "object into Go struct field ObjectMeta.metadata.managedFields of type []v1.ManagedFieldsEntry"),
    ({"managedFields": [{"time": "x"}]}, 'parsing time "x"'),
]  # fmt: skip
ACCEPTED: Final[list[dict[str, Any] | None]] = [
    None, {}, {"labels": None}, {"labels": {"a": None}}, {"finalizers": [None]}, {"labels": {"a": "b"}}, {"foo": 1},
    {"ownerReferences": [{**OWNER, "foo": "yes"}]}, {"managedFields": [{"fieldsV1": "x"}]}, {"Labels": ["a"]},
    {"creationTimestamp": "2026-11-26T03:49:00Z"}, {"deletionTimestamp": "2026-11-26T03:49:00.123+01:00"},
    {"ownerReferences": [None]}, {"generation": 2**40},
]  # fmt: skip


APPS, BATCH = "apps/v1", "batch/v1"
CONTAINER: Final = {"name": "a", "image": "b"}


def pods(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [CONTAINER], **spec}}}


MEMBERS: Final[list[tuple[str, str, dict[str, Any], str]]] = [
    (APPS, "Deployment", {"spec": []}, "array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
    (APPS, "Deployment", {"spec": {"replicas": "3"}},
     "string into Go struct field DeploymentSpec.spec.replicas of type int32"),
    (APPS, "Deployment", {"spec": {"replicas": 3000000000}},
     "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32"),
    (APPS, "Deployment", {"spec": {"replicas": 1.5}},
     "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
    (APPS, "Deployment", {"spec": pods(containers={})},
     "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"),
    (APPS, "Deployment", {"spec": pods(containers=["a"])},
     "string into Go struct field PodSpec.spec.template.spec.containers of type v1.Container"),
    (APPS, "Deployment", {"spec": pods(nodeSelector={"a": True})},
     "bool into Go struct field PodSpec.spec.template.spec.nodeSelector of type string"),
    (APPS, "Deployment", {"spec": pods(containers=[{**CONTAINER, "env": [{"name": "a", "value": 1}]}])},
     "number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string"),
    (APPS, "Deployment", {"spec": pods(containers=[{**CONTAINER, "resources": {"limits": {"cpu": "much"}}}])},
     "quantities must match the regular expression"),
    (APPS, "Deployment", {"spec": pods(containers=[{**CONTAINER, "resources": {"limits": {"cpu": True}}}])},
     "quantities must match the regular expression"),
    (APPS, "Deployment", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": True}}}}, "bool into Go "),
    (APPS, "Deployment", {"spec": {"paused": "yes"}},
     "string into Go struct field DeploymentSpec.spec.paused of type bool"),
    (APPS, "StatefulSet", {"spec": {"serviceName": 1}},
     "number into Go struct field StatefulSetSpec.spec.serviceName of type string"),
    (APPS, "StatefulSet", {"spec": {"volumeClaimTemplates": [{"spec": {"accessModes": "x"}}]}},
     "string into Go struct field PersistentVolumeClaimSpec.spec.volumeClaimTemplates.spec.accessModes of type []"),
    (APPS, "DaemonSet", {"spec": {"selector": "a"}},
     "string into Go struct field DaemonSetSpec.spec.selector of type v1.LabelSelector"),
    (APPS, "DaemonSet", {"spec": []}, "array into Go struct field DaemonSet.spec of type v1.DaemonSetSpec"),
    (APPS, "ReplicaSet", {"spec": {"template": []}},
     "array into Go struct field ReplicaSetSpec.spec.template of type v1.PodTemplateSpec"),
    (BATCH, "Job", {"spec": pods(hostNetwork="yes")},
     "string into Go struct field PodSpec.spec.template.spec.hostNetwork of type bool"),
    (BATCH, "CronJob", {"spec": {"jobTemplate": {"spec": pods(restartPolicy=1)}}},
     "number into Go struct field PodSpec.spec.jobTemplate.spec.template.spec.restartPolicy of type "),
    (BATCH, "CronJob", {"spec": {"jobTemplate": {"spec": 1}}},
     "number into Go struct field JobTemplateSpec.spec.jobTemplate.spec of type v1.JobSpec"),
    ("v1", "Pod", {"spec": {"tolerations": [{"tolerationSeconds": "1"}]}},
     "string into Go struct field Toleration.spec.tolerations.tolerationSeconds of type int64"),
    ("v1", "PersistentVolumeClaim", {"spec": {"resources": {"requests": []}}},
     "array into Go struct field VolumeResourceRequirements.spec.resources.requests of type v1.ResourceList"),
    ("v1", "ConfigMap", {"data": {"a": 1}}, "number into Go struct field ConfigMap.data of type string"),
    ("v1", "ConfigMap", {"data": []}, "array into Go struct field ConfigMap.data of type map[string]string"),
    ("v1", "ConfigMap", {"immutable": "no"}, "string into Go struct field ConfigMap.immutable of type bool"),
    ("v1", "Secret", {"data": {"a": "YQ"}}, "illegal base64 data"),
    ("v1", "Secret", {"data": {"a": 1}}, "number into Go struct field Secret.data of type []uint8"),
    ("v1", "Namespace", {"spec": {"finalizers": "x"}}, "string into Go struct field NamespaceSpec.spec.finalizers of type []v1.FinalizerName"),
    ("v1", "Service", {"spec": {"ports": [{"port": "80"}]}}, "string into Go struct field ServicePort.spec.ports.port of type int32"),
    ("v1", "ServiceAccount", {"imagePullSecrets": ["a"]}, "string into Go struct field ServiceAccount.imagePullSecrets of type v1.LocalObjectReference"),
    (RBAC, "ClusterRole", {"rules": [{"verbs": "get"}]}, "string into Go struct field PolicyRule.rules.verbs of type []string"),
    (RBAC, "RoleBinding", {"roleRef": "x"}, "string into Go struct field RoleBinding.roleRef of type v1.RoleRef"),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, 'LeaseSpec.spec.renewTime as "2006-01-02T15:04:05.000000Z07:00" failed'),
    ("v1", "Secret", {"type": 1}, "number into Go struct field Secret.type of type v1.SecretType"),
    ("v1", "Pod", {"status": {"containerStatuses": [{"ready": "yes"}]}},
     "string into Go struct field ContainerStatus.status.containerStatuses.ready of type bool"),
    ("v1", "Event", {"count": "1"}, "string into Go struct field Event.count of type int32"),
    ("events.k8s.io/v1", "Event", {"regarding": []}, "array into Go struct field Event.regarding of type v1.ObjectReference"),
    ("events.k8s.io/v1", "Event", {"eventTime": "2026-01-01T00:00:00Z"}, 'parsing time "2026-01-01T00:00:00Z"'),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "many"}}}, "quantities must match"),
    ("v1", "LimitRange", {"spec": {"limits": [{"max": []}]}},
     "array into Go struct field LimitRangeItem.spec.limits.max of type v1.ResourceList"),
    ("v1", "Node", {"spec": []}, "array into Go struct field Node.spec of type v1.NodeSpec"),
    ("v1", "Node", {"spec": {"taints": [{"effect": 1}]}}, "number into Go struct field Taint.spec.taints.effect of type v1.TaintEffect"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", {"spec": {"extra": {"a": "b"}}},
     "string into Go struct field CertificateSigningRequestSpec.spec.extra of type "),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"spec": {"versions": [{"served": 1}]}},
     "number into Go struct field CustomResourceDefinitionVersion.spec.versions.served of type bool"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition",
     {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"maximum": "1"}}}}}]}},
     "string into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.maximum of type float64"),
    ("authorization.k8s.io/v1", "SubjectAccessReview", {"spec": {"groups": "a"}},
     "string into Go struct field SubjectAccessReviewSpec.spec.groups of type []string"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": {"minReplicas": "1"}},
     "string into Go struct field HorizontalPodAutoscalerSpec.spec.minReplicas of type int32"),
    ("autoscaling/v1", "Scale", {"spec": {"replicas": True}}, "bool into Go struct field ScaleSpec.spec.replicas of type int32"),
    ("networking.k8s.io/v1", "Ingress", {"spec": {"rules": [{"host": 1}]}}, "number into Go struct field IngressRule.spec.rules.host of type string"),
    ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {"matchLabels": []}}},
     "array into Go struct field LabelSelector.spec.podSelector.matchLabels of type map[string]string"),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": True}}, "bool into Go "),
    ("storage.k8s.io/v1", "StorageClass", {"parameters": {"a": 1}}, "number into Go struct field StorageClass.parameters of type string"),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": "1"}, "string into Go struct field PriorityClass.value of type int32"),
    ("discovery.k8s.io/v1", "EndpointSlice", {"endpoints": [{"conditions": {"ready": 1}}]},
     "number into Go struct field EndpointConditions.endpoints.conditions.ready of type bool"),
    # These fit.
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition",
     {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"maximum": 1.5, "items": [], "default": 1, "additionalProperties": False}}}]}}, ""),
    ("v1", "Event", {"eventTime": None, "series": {"lastObservedTime": "2026-01-01T00:00:00.123456Z"}}, ""),
    (APPS, "Deployment", {"spec": {"replicas": None, "foo": 1, **pods(containers=[None])}}, ""),
    (APPS, "Deployment", {"spec": pods(containers=[{**CONTAINER, "resources": {"limits": {"cpu": 1, "a.b/c": "1e3"}}}])}, ""),
    (APPS, "Deployment", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}}}, ""),
    ("v1", "Secret", {"data": {"a": "YQ==\n", "b": None, "c": [1]}}, ""),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"renewTime": "2026-01-01T00:00:00.123456Z"}}, ""),
    ("example.org/v1", "Deployment", {"spec": []}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind", "members", "text"), MEMBERS)
def test_members_of_built_in_kinds_have_the_types_of_the_api(
    api_version: str, kind: str, members: dict[str, Any], text: str
) -> None:
    found = explain_wrong_member({"metadata": {"name": "a"}, **members}, api_version, kind)
    assert (text in found, bool(text)) == (True, bool(found)), found


def test_the_types_of_all_built_in_kinds_are_known() -> None:
    text = resources.files("fleethook.engines.dispatch.match").joinpath("builtins.json").read_text()
    for entry in json.loads(text):
        for version, served in entry["served"].items():
            for name in served.values():
                other, _, kind = name.rpartition("/")
                assert explain_wrong_member({"apiVersion": 1}, other or version, kind), name


@pytest.mark.parametrize(("metadata", "text"), REFUSED)
def test_members_of_other_types_are_found(metadata: dict[str, Any], text: str) -> None:
    assert text in explain_wrong_metadata({"metadata": {"name": "a", **metadata}})


@pytest.mark.parametrize("metadata", ACCEPTED)
def test_nulls_and_unknown_members_fit(metadata: dict[str, Any] | None) -> None:
    assert explain_wrong_metadata({"metadata": metadata}) == ""
    assert explain_wrong_metadata({}) == ""


@pytest.mark.parametrize(
    ("change", "builtin", "custom"),
    [
        ({}, "", ""),
        ({"kind": 1}, "cannot unmarshal number into Go struct field .kind", "cannot unmarshal number"),
        ({"apiVersion": 1}, "cannot unmarshal number into Go struct field .apiVersion", "cannot unmarshal number"),
        ({"kind": None}, "", "Object 'Kind' is missing"),
        ({"kind": "Other"}, 'no kind "Other" is registered', ""),
        ({"apiVersion": None}, "", "is unstructured and is not suitable for converting"),
        ({"apiVersion": "other.io/v9"}, 'is registered for version "other.io/v9"', "is not suitable for converting"),
        ({"metadata": []}, "", "system metadata was not initialized"),
    ],
)
def test_the_kind_must_stay(change: dict[str, Any], builtin: str, custom: str) -> None:
    for kind, text in ((CONFIG_MAP, builtin), (WIDGET, custom)):
        document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, **change}
        found = explain_wrong_kind(document, kind, is_builtin=kind is CONFIG_MAP)
        assert text in found
        assert bool(text) == bool(found)


async def apply_patch(front: Front, server: Webhooks, document: Any, *operations: dict[str, Any], policy: str) -> Any:
    server.answers["/w"] = patch(*operations)
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", "big.example.org", failurePolicy=policy)))
    return await front.dispatch(store, review(document), cluster="ws1", phase="mutating")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("operations", "size", "problem"),
    [
        (10_001, 0, "it has 10001 operations, and the limit is 10000 operations"),
        (6_000, 15_000, "the patch moves more than 100000000 elements of lists, which is the limit"),
    ],
)
async def test_patches_above_a_limit_are_refused_even_with_ignore(
    front: Front, server: Webhooks, operations: int, size: int, problem: str, policy: str
) -> None:
    document = widget(list=list(range(size)))
    insertions = [{"op": "add", "path": "/spec/list/0", "value": 1}] * operations
    found = await apply_patch(front, server, document, *insertions, policy=policy)
    assert not found.response.allowed
    assert 'the patch of admission webhook "big.example.org" does not apply' in found.response.message
    assert problem in found.response.message


async def test_patches_above_the_size_limit_are_refused(front: Front, server: Webhooks) -> None:
    large = {"op": "add", "path": "/spec/text", "value": "x" * (2 * 1024 * 1024)}
    found = await apply_patch(front, server, widget(), large, policy="Fail")
    assert not found.response.allowed
    assert "and the limit is 2097152 bytes" in found.response.message


async def test_patches_of_validating_webhooks_are_invalid_at_any_size(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/spec/text", "value": "x" * (2 * 1024 * 1024)})
    store = store_of(configuration("ws1", "validating", hook(server, "/w", failurePolicy="Ignore")))
    assert (await front.dispatch(store, review(), cluster="ws1")).response.allowed


@pytest.mark.parametrize(("operations", "size"), [(1, 1), (2_000, 1), (1, 50_000), (10_000, 0)])
async def test_large_patches_are_applied_in_a_thread(
    front: Front, server: Webhooks, monkeypatch: pytest.MonkeyPatch, operations: int, size: int
) -> None:
    threads: list[str] = []
    applied = patching.patch_object

    def patch_object(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return applied(*arguments)

    monkeypatch.setattr(patching, "patch_object", patch_object)
    document = widget(list=list(range(size)))
    insertions = [{"op": "add", "path": "/spec/list/0", "value": -number} for number in range(operations)]
    found = await apply_patch(front, server, document, *insertions, policy="Fail")
    assert found.response.allowed
    made = apply_response(found, document)
    assert made["spec"]["list"] == [*(-number for number in reversed(range(operations))), *range(size)]
    (thread,) = threads
    assert (thread == "MainThread") is (operations * size == 1)
