"""Tests of the paths of patches: pointers, and selectors of list elements."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.patch_paths_and_protected_fields import (
    PathError,
    find_path_problems,
    find_target,
    missing_parent,
    parse_selector,
    pointer_of,
    protected_pointer,
    suggest_pointer,
)
from fleethook.patch import parse_pointer
from tests.builders import container

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


SPEC = "/spec/template/spec"


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        (
            '$.spec.template.spec.containers[?(@.name=="app")].image',
            "write /spec/template/spec/containers/[name=app]/image",
        ),
        (".spec.replicas", "write /spec/replicas"),
        ("spec/template/spec/containers[app]/env", "write /spec/template/spec/containers/[name=app]/env"),
    ],
)
def test_forms_of_other_tools_get_a_pointer(path: str, advice: str) -> None:
    assert suggest_pointer(path) == advice


def test_an_index_in_brackets_gets_a_pointer() -> None:
    path = f"{SPEC}/containers[0]/ports[containerPort=80]/name"
    first, *_ = find_path_problems(path, parse_pointer(path), "add", is_extended=True)
    assert first.endswith("write containers/0")


DNS = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]
WORKLOAD: dict[str, Any] = {
    "spec": {
        "template": {
            "spec": {"containers": [container("side"), container("app", ports=DNS, args=["a"]), container("twin")]}
        }
    }
}


def find(path: str, *, add: bool = False) -> str:
    return pointer_of(find_target(WORKLOAD, path, add=add))


@pytest.mark.parametrize(
    ("token", "members"),
    [
        ("[name=app]", {"name": "app"}),
        ("[containerPort=53,protocol=UDP]", {"containerPort": "53", "protocol": "UDP"}),
        ("[name=a,b]", {"name": "a,b"}),
        ("[name=]", {"name": ""}),
        ("[,name=a]", None),
        ("[name]", None),
        ("[=a]", None),
        ("name=a", None),
        ("[name=a", None),
    ],
)
def test_a_selector_lists_members(token: str, members: dict[str, str] | None) -> None:
    assert parse_selector(token) == members


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        (f"{SPEC}/containers/[name=app]/image", f"{SPEC}/containers/1/image"),
        (f"{SPEC}/containers/[name=app]", f"{SPEC}/containers/1"),
        (f"{SPEC}/containers/1/args/0", f"{SPEC}/containers/1/args/0"),
        (f"{SPEC}/containers/[name=app]/ports/[containerPort=53,protocol=TCP]", f"{SPEC}/containers/1/ports/1"),
    ],
)
def test_a_selector_becomes_the_index_of_its_element(path: str, pointer: str) -> None:
    assert find(path) == pointer


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the path is empty"),
        ("/spec/absent", "member 'absent' does not exist"),
        ("/spec/absent/inner", "member 'absent' does not exist"),
        (f"{SPEC}/containers/3", "index 3 is out of range: the array has 3 elements"),
        (f"{SPEC}/containers/01", "'01' is not an array index"),
        (f"{SPEC}/containers/-", "'-' is not an array index"),
        (f"{SPEC}/containers/0/image/x", "'x' selects a member of a value that is neither object nor array"),
        (f"{SPEC}/containers/[image=nginx:1.0]", r"\[image=nginx:1.0\] names 3 elements"),
        (
            f"{SPEC}/containers/[name=ap]/image",
            rf"no element \[name=ap\] in {SPEC}/containers; .* of the template: \[name=side\], \[name=app\]",
        ),
    ],
)
def test_a_path_that_selects_nothing_is_an_error(path: str, message: str) -> None:
    with pytest.raises(PathError, match=message):
        find(path)


def test_an_addition_may_name_a_missing_member_or_element() -> None:
    assert find("/spec/absent", add=True) == "/spec/absent"
    target = find_target(WORKLOAD, f"{SPEC}/containers/[name=new]", add=True)
    assert (pointer_of(target), target.filled) == (f"{SPEC}/containers/-", {"name": "new"})
    assert find(f"{SPEC}/containers/[name=app]", add=True) == f"{SPEC}/containers/1"
    with pytest.raises(PathError, match="names 3 elements"):
        find(f"{SPEC}/containers/[image=nginx:1.0]", add=True)


@pytest.mark.parametrize(
    ("path", "added"),
    [
        (f"{SPEC}/containers/[name=app]/env/-", (f"{SPEC}/containers/1/env", [])),
        (f"{SPEC}/containers/0/env/[name=A]", (f"{SPEC}/containers/0/env", [])),
        (f"{SPEC}/nodeSelector/disk", (f"{SPEC}/nodeSelector", {})),
        (f"{SPEC}/containers/-", None),
        (f"{SPEC}/containers/0/env/0", None),
        (f"{SPEC}/affinity/nodeAffinity/x", None),
        ("/spec", None),
    ],
)
def test_only_the_last_parent_is_added(path: str, added: tuple[str, Any] | None) -> None:
    expected = None if added is None else {"op": "add", "path": added[0], "value": added[1]}
    assert missing_parent(WORKLOAD, path) == expected
