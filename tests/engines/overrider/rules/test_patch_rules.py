"""Tests of the rules for patches; mistakes.md has further mistakes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.entry_selection import sample_names
from fleethook.engines.overrider.rules.item_rules import check_image
from fleethook.engines.overrider.rules.overrider_rules import check_overrider
from fleethook.engines.overrider.rules.patch_rules import check_patch
from tests.builders import entry, overrider, patch

SPEC = "/spec/template/spec"


def check(made: Any) -> list[tuple[str, str]]:
    found = check_overrider(overrider(entry("hangzhou", patches=[made])))
    return [(one.code, one.field.replace("entries[0].patches[0]", "p")) for one in found]


@pytest.mark.parametrize(
    "made",
    [
        patch("add", f"{SPEC}/containers/[name=app]/env/-", {"name": "A"}),
        patch("replace", f"{SPEC}/containers/0/image", "r.io/{{nodepool}}:1"),
        patch("replace", f"{SPEC}/hostNetwork", None),
        patch("remove", f"{SPEC}/hostNetwork", None),
        patch("remove", f"{SPEC}/containers/0"),
    ],
)
def test_a_right_patch_has_no_finding(made: dict[str, Any]) -> None:
    assert check(made) == []


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("patch", [("invalid", "p")]),
        ({"path": "/spec/paused"}, [("required", "p.operation")]),
        ({"op": "remove", "path": "/spec/paused"}, [("unknown-field", "p.op")]),
        (patch("move", "/spec/paused"), [("unsupported", "p.operation")]),
        ({"operation": 1, "path": "/spec/paused"}, [("invalid", "p.operation")]),
        (patch("add", "/spec/paused"), [("required", "p.value")]),
        (patch("remove", "/spec/paused", True), [("forbidden", "p.value")]),
        ({"operation": "remove"}, [("required", "p.path")]),
        (patch("remove", "spec.paused"), [("invalid", "p.path")]),
        (patch("remove", f"{SPEC}/containers/[name]"), [("invalid", "p.path")]),
        (patch("remove", f"{SPEC}/containers/[name=app"), [("invalid", "p.path")]),
        (patch("remove", f"{SPEC}/containers/-"), [("invalid", "p.path")]),
        (patch("replace", "/metadata/name", "x"), [("forbidden", "p.path")]),
        (patch("add", f"{SPEC}/nodeSelector/a", "{{ nodepool }}"), [("token", "p.value")]),
        (patch("replace", f"{SPEC}/containers/0/image", "Not:an image"), [("image", "p.value")]),
        (patch("add", f"{SPEC}/initContainers/-", {"image": "Not:an image"}), [("image", "p.value.image")]),
        (patch("add", f"{SPEC}/containers", [{"image": "a"}, {"image": "?"}]), [("image", "p.value[1].image")]),
        (patch("add", "/metadata/annotations/image", "Not:an image"), []),
    ],
)
def test_a_wrong_patch_has_a_finding_with_its_path(made: Any, found: list[tuple[str, str]]) -> None:
    assert check(made) == found


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        (
            '$.spec.template.spec.containers[?(@.name=="app")].image',
            "write /spec/template/spec/containers/[name=app]/image",
        ),
        (".spec.replicas", "write /spec/replicas"),
        ("spec/template/spec/containers[app]/env", "write /spec/template/spec/containers/[name=app]/env"),
        (f"{SPEC}/containers[0]/ports[containerPort=80]/name", "write containers/0"),
    ],
)
def test_forms_of_other_tools_get_a_pointer(path: str, advice: str) -> None:
    first = next(iter(check_patch(patch("add", path, "x"), "p", pools=())))
    assert first.message.endswith(advice)


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
IMAGES = st.sampled_from(
    [
        "r.io/{{nodepool}}/x:1",
        "{{nodepool}}:1",
        "r.io:{{nodepool}}/x:1",
        "x:{{nodepool}}",
        "{{nodepool}}.io/x",
        "a-{{nodepool}}-",
    ]
)


@given(image=IMAGES, names=st.lists(NAMES, min_size=1, max_size=8))
def test_an_image_that_is_valid_for_the_sample_is_valid_for_all_names(image: str, names: list[str]) -> None:
    every = {bool(list(check_image(image, "f", pools=[name]))) for name in names}
    assert bool(list(check_image(image, "f", pools=sample_names(names)))) == (True in every)
