"""Tests of the remarks about entries that have another form as tweaks."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.entry_remarks import describe_entries
from fleethook.engines.overrider.convert.pool_conversion import convert_pool
from tests.builders import container, entry, image, patch, pod_template
from tests.engines.overrider.convert.sources import source_of, subject_of

SPEC = "/spec/template/spec"
NOTE = "/spec/template/metadata/annotations"


def describe(*entries: Any, **spec: Any) -> list[tuple[str, str, str]]:
    source = source_of(*entries, **spec)
    found = describe_entries(subject_of(source), [convert_pool(source)], [])
    return [(one.level, one.code, one.field) for one in found]


@pytest.mark.parametrize(
    ("one", "remarks"),
    [
        (entry("a", items=[image("nginx", "x:1"), {"replicas": 5}]), []),
        (entry("*", patches=[patch("add", f"{SPEC}/hostNetwork", True)]), []),
        (entry("*", "-b", items=[{"replicas": 5}]), [("warning", "listed-pools", "entries[0].pools")]),
        (entry("a", items=[image("nginx", "x:{{nodepool}}")]), [("note", "listed-pools", "entries[0].items[0]")]),
        (entry("*", items=[image("nginx", "x:{{nodepool}}")]), [("warning", "listed-pools", "entries[0].items[0]")]),
        (entry("*", items=[{"labels": {"a": "b"}}]), [("note", "patch", "entries[0].items[0]")]),
        (
            entry("*", patches=[patch("add", f"{NOTE}/{{{{nodepool}}}}", "x")]),
            [("warning", "listed-pools", "entries[0].patches[0].path")],
        ),
        (
            entry("*", patches=[patch("replace", f"{SPEC}/containers/[name=nginx]/image", "x:1")]),
            [("note", "index", "entries[0].patches[0].path")],
        ),
        (entry("b", items=[{"replicas": 5}]), [("note", "unused", "entries[0]")]),
    ],
)
def test_another_form_is_reported_at_its_path(one: dict[str, Any], remarks: list[tuple[str, str, str]]) -> None:
    assert describe(one) == remarks


def test_an_item_after_a_patch_of_the_same_member_is_a_note() -> None:
    patched = patch("replace", f"{SPEC}/containers/0/image", "x:0")
    assert describe(entry("*", patches=[patched]), entry("*", items=[image("nginx", "x:1")])) == [
        ("note", "patch", "entries[1].items[0]")
    ]


def test_members_that_are_set_to_null_are_a_note_of_the_last_step() -> None:
    template = pod_template(containers=[container(args=["a"])])
    replaced = patch("replace", f"{SPEC}/containers/0", container(image="x:1"))
    assert describe(entry("*", patches=[replaced]), template=template) == [("note", "unset", "entries[0].patches[0]")]


def test_a_subject_without_overrider_has_no_remark() -> None:
    assert describe() == []
