"""Types of patched objects. The verdicts are those of kube-apiserver 1.36.3 with a mutating webhook and a ConfigMap."""

from typing import Any, Final

import pytest

from app.dispatch.object_types import explain_wrong_kind, explain_wrong_metadata
from app.model.gvk import GroupVersionKind

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
