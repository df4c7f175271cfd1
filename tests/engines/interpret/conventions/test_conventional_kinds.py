"""Kinds that follow the conventions: their operations, and their replicas."""

from typing import Any

import msgspec
import pytest

from fleethook.cluster.store import Store
from fleethook.engines.interpret.conventions.conventional_kinds import (
    ConventionalKind,
    ConventionsLayer,
    ReferenceRule,
    find_pod_templates,
    list_dependencies,
)
from fleethook.engines.interpret.interpreter_chain import Chain, ChainError, ChainStep
from fleethook.engines.interpret.native.native_kinds import NativeLayer
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import DEFINITIONS_BY_KIND
from fleethook.interpret.interpreter import InterpretError, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import ConventionsMode, Operation

POD: dict[str, Any] = {
    "containers": [{"name": "app", "image": "x", "envFrom": [{"secretRef": {"name": "env"}}]}],
    "serviceAccountName": "runner",
    "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"configMap": {"name": "settings"}}],
}


def find(document: Any, references: Any = (), pods: tuple[str, ...] = ()) -> list[str]:
    """Return the dependencies as ``KIND NAMESPACE/NAME``."""
    rules = [msgspec.convert(one, ReferenceRule) for one in references]
    document = {"metadata": {"namespace": "shop"}, **document}
    return [
        f"{one['kind']} {one.get('namespace', '')}/{one['name']}" for one in list_dependencies(document, rules, pods)
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"spec": POD}},
        {"podTemplate": {"metadata": {}, "spec": POD}},
        {"podSpec": POD},
        {"groups": [{"name": "a"}, {"name": "b", "template": {"spec": POD}}]},
        {"deep": {"er": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}}},
    ],
)
def test_pod_templates_are_found_anywhere_in_the_spec(spec: Any) -> None:
    assert [one["spec"] for one in find_pod_templates({"spec": spec})] == [POD]
    assert find({"spec": spec}) == [
        "ConfigMap shop/settings", "Secret shop/env", "ServiceAccount shop/runner", "PersistentVolumeClaim shop/data",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        {"status": {"template": {"spec": POD}}},
        {"spec": {"containers": ["a", "b"]}},
        {"spec": {"containers": [{"port": 1}]}},
        {"spec": {"containers": []}},
        {"spec": {"containers": {"name": "x"}}},
    ],
)
def test_other_objects_are_no_pod_templates(document: Any) -> None:
    assert find_pod_templates(document) == []


def test_a_pod_template_of_unexpected_types_has_no_dependencies() -> None:
    assert find({"spec": {"template": {"spec": {**POD, "volumes": "none"}}}}) == []


def test_claims_that_the_controller_creates_are_no_dependencies() -> None:
    spec = {"template": {"spec": POD}, "storage": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}
    assert "PersistentVolumeClaim shop/data" not in find({"spec": spec})


def test_an_object_may_have_members_of_a_pod_without_containers() -> None:
    spec = {"imagePullSecrets": [{"name": "pull"}], "env": [{"valueFrom": {"configMapKeyRef": {"name": "e"}}}]}
    assert find({"spec": spec}) == []
    assert find({"spec": spec}, pods=("/spec",)) == ["ConfigMap shop/e", "Secret shop/pull"]


STORE = {"apiVersion": "x.io/v1", "kind": "Store", "at": "/spec/storeRef", "when": {"kind": ["", "Store"]}}
CLUSTER_STORE = {**STORE, "kind": "ClusterStore", "when": {"kind": ["ClusterStore"]}, "cluster_scoped": True}


@pytest.mark.parametrize(
    ("spec", "rule", "found"),
    [
        ({"secretRef": {"name": "a"}}, {"at": "/spec/secretRef", "kind": "Secret"}, ["Secret shop/a"]),
        ({"secretRef": {"name": "a", "namespace": "b"}}, {"at": "/spec/secretRef", "kind": "Secret"}, ["Secret b/a"]),
        ({"secretName": "a"}, {"at": "/spec/secretName", "kind": "Secret"}, ["Secret shop/a"]),
        ({"secretName": ""}, {"at": "/spec/secretName", "kind": "Secret"}, []),
        ({"secretName": {"nam": 1}}, {"at": "/spec/secretName", "kind": "Secret"}, []),
        ({"x": [{"ref": {"key": "k"}}, {"ref": {"key": "l"}}]}, {"at": "/spec/x/*/ref", "kind": "Secret", "name": "key"},
         ["Secret shop/k", "Secret shop/l"]),
        ({"p": {"q": {"tokenRef": {"name": "t"}}}}, {"at": "/spec/p/**/tokenRef", "kind": "Secret"}, ["Secret shop/t"]),
        ({"storeRef": {"name": "s"}}, STORE, ["Store shop/s"]),
        ({"storeRef": {"name": "s", "kind": "ClusterStore"}}, STORE, []),
        ({"storeRef": {"name": "s", "kind": "ClusterStore"}}, CLUSTER_STORE, ["ClusterStore /s"]),
        ({"storeRef": {"name": "s"}}, CLUSTER_STORE, []),
    ],
)  # fmt: skip
def test_rules_point_to_references(spec: Any, rule: Any, found: list[str]) -> None:
    assert find({"spec": spec}, [rule]) == found


def test_a_cluster_scoped_object_has_no_namespace_for_a_reference_without_one() -> None:
    rule = {"at": "/spec/*", "kind": "Secret"}
    document = {"metadata": {}, "spec": {"a": {"name": "a"}, "b": {"name": "b", "namespace": "n"}}}
    assert find(document, [rule]) == ["Secret n/b"]


GVK = GroupVersionKind("example.com", "v1", "Foo")
ALWAYS = {Operation.HEALTH, Operation.STATUS, Operation.AGGREGATE_STATUS}
TEMPLATE = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}}
OTHER = {"spec": {"containers": [{"name": "b", "resources": {"requests": {"cpu": "3"}}}]}}


def make_kind(**members: Any) -> ConventionalKind:
    return msgspec.convert({"versions": ["v1"], **members}, ConventionalKind)


@pytest.mark.parametrize(
    ("members", "operations"),
    [
        ({}, ALWAYS),
        ({"pods": []}, {*ALWAYS, Operation.DEPENDENCY}),
        ({"references": []}, {*ALWAYS, Operation.DEPENDENCY}),
        ({"replicas": {"spec": ".spec.n"}}, {*ALWAYS, Operation.REPLICA, Operation.REVISE_REPLICA}),
        ({"operations": ["InterpretHealth", "InterpretReplica"]}, {Operation.HEALTH}),
    ],
)
def test_the_members_of_an_entry_decide_about_the_operations(members: Any, operations: set[Operation]) -> None:
    assert make_kind(**members).answered == operations


@pytest.mark.parametrize("members", [{"healthy": {}}, {"health": {"true": ["Ready"]}}, {"references": [{"at": "/a"}]}])
def test_an_entry_with_an_unknown_or_missing_member_is_refused(members: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        make_kind(**members)


@pytest.mark.parametrize(
    ("spec", "replicas", "cpu"),
    [
        ({"group": {"size": 3, "template": TEMPLATE}}, 3, "2"),
        ({"group": {"size": 3, "template": TEMPLATE}, "other": OTHER}, 3, "2"),
        ({"group": {"size": 3}, "other": OTHER}, 3, "3"),
        ({"group": {"size": 3}, "other": OTHER, "template": TEMPLATE}, 3, None),
        ({"group": {"size": 3}}, 3, None),
        ({"group": {"size": None}}, 0, None),
        ({"group": 1}, 0, None),
        (None, 0, None),
    ],
)
def test_replicas_are_read_with_the_requirements_of_the_template_beside_them(
    spec: Any, replicas: int, cpu: str | None
) -> None:
    kind = make_kind(replicas={"spec": ".spec.group.size", "status": ".status.size"})
    answer = kind.answer(Question(Operation.REPLICA, GVK, {"spec": spec}))
    wanted = None if cpu is None else {"resourceRequest": {"cpu": cpu}}
    assert (answer.replicas, answer.requirements) == (replicas, wanted)


def test_replicas_are_set_where_they_are_and_nowhere_else() -> None:
    kind = make_kind(replicas={"spec": ".spec.size"})
    document = {"spec": {"size": 1, "kept": True}}
    revise = Question(Operation.REVISE_REPLICA, GVK, document, replicas=5)
    assert kind.answer(revise).object == {"spec": {"size": 5, "kept": True}}
    assert document["spec"]["size"] == 1
    for without in ({}, {"spec": {}}, {"spec": None}):
        assert kind.answer(revise._replace(object=without)).object == without
    with pytest.raises(InterpretError, match="negative"):
        kind.answer(revise._replace(replicas=-1))


@pytest.mark.parametrize("size", ["3", True, {}])
def test_a_number_of_replicas_of_another_type_is_an_error(size: Any) -> None:
    kind = make_kind(replicas={"spec": ".spec.size"})
    with pytest.raises(InterpretError, match=r"\.spec\.size is not an integer"):
        kind.answer(Question(Operation.REPLICA, GVK, {"spec": {"size": size}}))


def test_the_answer_about_health_names_the_rule() -> None:
    document = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    answer = make_kind().answer(Question(Operation.HEALTH, GVK, document))
    assert (answer.healthy, answer.rule) == (False, "Ready is False")


OFF, HEALTH, ALL = ConventionsMode.OFF, ConventionsMode.HEALTH, ConventionsMode.ALL
FOO = GroupVersionKind("example.com", "v1", "Foo")


OLD = FOO._replace(version="v1alpha1")


SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


def define(group: str = "example.com", kind: str = "Foo", **versions: Any) -> dict[str, Any]:
    """Return a definition; the value of a version are its members."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind},
            "versions": [{"name": name, "served": True, **members} for name, members in versions.items()],
        },
    }


def layer_of(mode: ConventionsMode, *definitions: dict[str, Any]) -> ConventionsLayer:
    store = Store([DEFINITIONS_BY_KIND])
    for one in definitions:
        store.put(one)
    return ConventionsLayer(store, mode)


SCALED = define(v1={"subresources": {"scale": SCALE}}, v1alpha1={"subresources": {"status": {}}})


@pytest.mark.parametrize(
    ("mode", "answered"),
    [
        (OFF, set()),
        (HEALTH, {(FOO, Operation.HEALTH), (OLD, Operation.HEALTH)}),
        (
            ALL,
            {(kind, operation) for kind in (FOO, OLD) for operation in (Operation.HEALTH, Operation.DEPENDENCY)}
            | {(FOO, Operation.REPLICA), (FOO, Operation.REVISE_REPLICA)},
        ),
    ],
)
def test_the_layer_declares_what_it_answers_for_the_served_kinds(mode: ConventionsMode, answered: set[Any]) -> None:
    unserved = define(kind="Bar", v1={"served": False})
    layer = layer_of(mode, SCALED, unserved, define("policy.karmada.io", "Policy", v1={}), define(kind="", spec={}))
    assert {one for one in layer.answers() if one[0].kind in ("Foo", "Bar", "Policy")} == answered
    for kind, operation in answered:
        assert layer.find(Question(operation, kind, {})) is not None


@pytest.mark.parametrize("subresources", [None, {}, {"scale": None}, {"scale": {"specReplicasPath": 1}}])
def test_without_a_scale_subresource_replicas_are_unknown(subresources: Any) -> None:
    layer = layer_of(ALL, define(v1={"subresources": subresources}))
    for kind in (FOO, OLD, FOO._replace(kind="Undefined")):
        assert layer.find(Question(Operation.REPLICA, kind, {})) is None
        assert layer.find(Question(Operation.HEALTH, kind, {})) is not None


async def test_explanations_name_the_rule_and_what_decided() -> None:
    chain = Chain([NativeLayer(), layer_of(ALL, SCALED)])
    document = {"spec": {"size": 2}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "No"}]}}
    explained = await chain.answer(Question(Operation.HEALTH, FOO, document))
    assert explained.answer.healthy is False
    assert explained.steps[-1] == ChainStep("conventions", "standard conditions", "answered", "Ready is False (No)")
    explained = await chain.answer(Question(Operation.REPLICA, FOO, document))
    assert (explained.answer.replicas, explained.steps[-1].hook) == (2, "scale subresource")
    explained = await chain.answer(Question(Operation.REVISE_REPLICA, FOO, document, replicas=5))
    assert explained.answer.object == {**document, "spec": {"size": 5}}
    with pytest.raises(ChainError, match="not found"):
        await chain.answer(Question(Operation.AGGREGATE_STATUS, FOO, document))
