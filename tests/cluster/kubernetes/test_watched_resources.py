"""The fields that are kept of watched objects, and the paths of their lists."""

import json
from typing import Any

import msgspec
import pytest

from fleethook.cluster.kubernetes.watched_resources import (
    API_RESOURCE_SCHEMAS,
    APIBINDINGS,
    DEFINITIONS,
    DISPATCHING,
    YURT_APP_OVERRIDERS,
    FieldSelection,
    WatchedResource,
)
from fleethook.cluster.store import Index
from fleethook.model.gvk import GroupKind

INDEX = Index("by_name", GroupKind("", "ConfigMap"), lambda _cluster, _object: [])


@pytest.mark.parametrize(
    ("fields", "selector"),
    [
        ((("subject.kind", "YurtAppSet"), ("subject.name", "demo")), "subject.kind=YurtAppSet,subject.name=demo"),
        ((("a", r"x=y,z\w"),), r"a=x\=y\,z\\w"),
    ],
)
def test_values_are_escaped_as_in_apimachinery(fields: tuple[tuple[str, str], ...], selector: str) -> None:
    assert FieldSelection(INDEX, "k", "ns", fields).selector == selector


METADATA = {"name": "a", "resourceVersion": "7", "annotations": {"kcp.io/cluster": "root"}, "labels": {"l": "1"}}
SIZED = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "x": {"type": "string"}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}


def decoded(resource: WatchedResource, document: object) -> object:
    return resource.decode(json.dumps(document).encode())


def with_managed_fields(**members: object) -> dict[str, object]:
    return {"apiVersion": "v", "kind": "K", "metadata": {**METADATA, "managedFields": [{}]}, **members}


@pytest.mark.parametrize("resource", [DEFINITIONS, API_RESOURCE_SCHEMAS])
def test_a_definition_keeps_its_versions_with_nothing_but_the_defaults_of_schemas(resource: WatchedResource) -> None:
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://c"}, "conversionReviewVersions": ["v1"]},
    }
    document = with_managed_fields(
        spec={
            "group": "example.org",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["w"], "categories": ["claim"]},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": SCHEMA, "subresources": {"status": {}}},
                {"name": "v2", "served": False, "schema": SIZED, "additionalPrinterColumns": [{}]},
            ],
            "conversion": conversion,
        },
        status={"acceptedNames": {"plural": "widgets"}},
    )
    keeps = {"x-kubernetes-preserve-unknown-fields": True}
    assert decoded(resource, document) == {
        "metadata": METADATA,
        "spec": {
            "group": "example.org",
            "names": {"kind": "Widget", "plural": "widgets", "categories": ["claim"]},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "subresources": {"status": {}}},
                {"name": "v2", "served": False, "schema": {"properties": {"size": {"default": 3, **keeps}}, **keeps}},
            ],
            "conversion": conversion,
        },
    }


def test_a_binding_is_kept_without_permission_claims() -> None:
    bound = [{"group": "g", "resource": "r", "schema": {"name": "v1.r.g", "UID": "u", "identityHash": "h"}}]
    document = with_managed_fields(
        spec={"reference": {"export": {"path": "root:a", "name": "e"}}, "permissionClaims": [{"resource": "secrets"}]},
        status={
            "apiExportClusterName": "x", "phase": "Bound", "boundResources": bound, "conditions": [{"type": "Ready"}],
            "appliedPermissionClaims": [{}], "exportPermissionClaims": [{}],
        },
    )  # fmt: skip
    assert decoded(APIBINDINGS, document) == {
        "metadata": METADATA,
        "spec": {"reference": {"export": {"path": "root:a", "name": "e"}}},
        "status": {
            "apiExportClusterName": "x",
            "phase": "Bound",
            "boundResources": bound,
            "conditions": [{"type": "Ready"}],
        },
    }


@pytest.mark.parametrize("resource", DISPATCHING)
def test_empty_objects_are_decoded_and_other_values_are_errors(resource: WatchedResource) -> None:
    assert decoded(resource, {}) == {}
    for text in (b"[]", b"{", b'{"metadata":1}' if resource.kind[:3] not in ("Mut", "Val") else b"1"):
        with pytest.raises(msgspec.DecodeError):
            resource.decode(text)


def test_the_definition_of_overriders_keeps_its_schema() -> None:
    """It shows which fields an apiserver prunes."""
    spec = {"versions": [{"name": "v1alpha1", "schema": SCHEMA}, {"name": "v0"}]}
    for name, schemas in ((YURT_APP_OVERRIDERS.name, [SCHEMA, None]), ("yurtappsets.apps.openyurt.io", [None, None])):
        kept: Any = decoded(DEFINITIONS, {"metadata": {"name": name}, "spec": spec})
        assert [version.get("schema") for version in kept["spec"]["versions"]] == schemas
