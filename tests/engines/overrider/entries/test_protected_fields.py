"""Tests of the fields that no override may write."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.protected_fields import key_owner, protected_change, protected_pointer
from tests.builders import workload

POOL = "apps.openyurt.io/pool-name"
LABELS = ("spec", "template", "metadata", "labels")


@pytest.mark.parametrize(
    ("tokens", "value", "pointer"),
    [
        ((), {}, "/apiVersion"),
        (("metadata",), {}, "/metadata/name"),
        (("metadata", "name"), "x", "/metadata/name"),
        (("metadata", "ownerReferences", "0", "uid"), "x", "/metadata/ownerReferences"),
        (("spec",), {}, "/spec/selector"),
        (("spec", "selector", "matchLabels", "a"), "x", "/spec/selector"),
        (("metadata", "labels", POOL), "x", "/metadata/labels/apps.openyurt.io~1pool-name"),
        ((*LABELS, "apps.openyurt.io/other"), "x", "/spec/template/metadata/labels/apps.openyurt.io~1other"),
        (("metadata", "annotations", "fleethook.io/undo"), "x", "/metadata/annotations/fleethook.io~1undo"),
        (("metadata", "annotations"), {"fleethook.io/undo": "x"}, "/metadata/annotations/fleethook.io~1undo"),
        (("spec", "template"), {"metadata": {"labels": {"fleethook.io/a": "x"}}}, "/spec/template/metadata/labels/fleethook.io~1a"),
        (("spec", "template"), {"metadata": {"labels": {POOL: "x"}}}, None),
        (("metadata", "labels"), {"a": "b"}, None),
        (LABELS, {}, None),
        (("metadata", "labels", "a"), "x", None),
        (("metadata", "annotations"), None, None),
        (("spec", "replicas"), 3, None),
        (("spec", "template", "spec", "nodeSelector", POOL), "x", None),
    ],
)  # fmt: skip
def test_a_patch_of_a_protected_field_or_its_parent_is_found(
    tokens: tuple[str, ...], value: Any, pointer: str | None
) -> None:
    assert protected_pointer(tokens, value) == pointer


@pytest.mark.parametrize(
    ("key", "owner"),
    [("fleethook.io/undo", "fleethook"), (POOL, "OpenYurt"), ("app", ""), ("my.apps.openyurt.io/a", "")],
)
def test_the_prefix_of_a_key_names_its_writer(key: str, owner: str) -> None:
    assert key_owner(key) == owner


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("metadata.name", "x", "/metadata/name"),
        ("metadata.ownerReferences", [], "/metadata/ownerReferences"),
        ("kind", "StatefulSet", "/kind"),
        ("status", {}, "/status"),
        ("spec.selector", {}, "/spec/selector"),
        ("metadata.labels", {"app": "demo"}, "/metadata/labels/apps.openyurt.io~1pool-name"),
        ("metadata.annotations", {"apps.openyurt.io/patch": "x"}, "/metadata/annotations/apps.openyurt.io~1patch"),
        ("spec.template.metadata", {"labels": {}}, "/spec/template/metadata/labels/app"),
        ("metadata.annotations", {"apps.openyurt.io/patch": "", "a": "b"}, None),
        ("spec.replicas", 9, None),
    ],
)
def test_a_change_of_a_protected_member_is_found(path: str, value: Any, pointer: str | None) -> None:
    changed = workload()
    *parents, last = path.split(".")
    node = changed
    for part in parents:
        node = node[part]
    node[last] = value
    assert protected_change(workload(), changed) == pointer
