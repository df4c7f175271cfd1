"""Tests of the schema and the subject of an overrider, and that validation never fails; mistakes.md has further mistakes."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.overrider.rules.findings_in_files import check_documents
from fleethook.engines.overrider.rules.schema_and_binding_rules import check_rules, unknown_subject
from tests.builders import (
    API,
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    request,
    store_of,
    validate_overrider,
    validate_subject,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.hypothesis_profiles import examples

KNOWN = "YurtAppSet default/demo is not known yet, so nothing could be rendered to check this"


def describe(*subjects: dict[str, Any], every_namespace: bool = True, name: str = "demo") -> str:
    rule = overrider(entry("*"), subject={"apiVersion": API, "kind": "YurtAppSet", "name": name})
    finding = unknown_subject(
        rule, cluster="", namespace="default", store=store_of(*subjects), every_namespace=every_namespace
    )
    assert finding[:2] == ("unknown-subject", "subject.name")
    return finding.message.removeprefix(KNOWN.replace("demo", name))


def in_namespace(subject: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**subject, "metadata": {**subject["metadata"], "namespace": namespace}}


@pytest.mark.parametrize(
    ("subject", "hint"),
    [
        (yurt_app_set("other"), ""),
        (yurt_app_set("dmeo"), "; did you mean dmeo?"),
        (yurt_app_daemon("demo"), "; YurtAppDaemon demo exists: did you mean kind YurtAppDaemon?"),
        (
            in_namespace(yurt_app_set(), "edge"),
            (
                "; YurtAppSet demo is in namespace edge and the overrider in namespace default: "
                "an overrider must be in its subject's namespace"
            ),
        ),
    ],
)
def test_the_subject_that_was_probably_meant_is_named(subject: dict[str, Any], hint: str) -> None:
    assert describe(subject) == hint


def test_admission_names_no_subject_of_another_namespace() -> None:
    subjects = (in_namespace(yurt_app_set(), "edge"), in_namespace(yurt_app_set("dmeo"), "edge"))
    assert describe(*subjects, every_namespace=False) == ""


@pytest.mark.parametrize(("count", "hint"), [(1000, "; did you mean set-500x?"), (1001, "")])
def test_more_than_a_thousand_names_are_not_compared(count: int, hint: str) -> None:
    subjects = [yurt_app_set(f"set-{number}x") for number in range(count)]
    assert describe(*subjects, name="set-500") == hint


SPEC = "/spec/template/spec"
RULE = overrider(
    entry(
        "hangzhou",
        "-beijing",
        items=[
            image("nginx", "nginx:{{nodepool}}"),
            {"replicas": 3},
        ],
    ),
    entry(
        "*",
        patches=[
            patch("add", "/metadata/annotations", {"a": "b"}),
            patch("replace", f"{SPEC}/containers/[name=nginx]/image", "nginx:2"),
            patch("add", f"{SPEC}/containers/-", {"name": "side", "image": "side:1"}),
        ],
    ),
)
SUBJECT = yurt_app_set(
    template=pod_template(containers=[container(args=["a"])]), pools=[pool("hangzhou", patch={"spec": {}})]
)
DAEMON = yurt_app_daemon("demo")
NODE_POOL = node_pool("hangzhou", {"region": "east"})

VALUES = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "-", "*", "{{ nodepool }}", "/a", [], [[]], [None], {}, {"": 1}, {"name": 1}, 10**30]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += places(one, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """The document with up to three values replaced, renamed or removed, except kind and metadata."""
    made = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        found = [path for path in places(made) if path[0] not in ("apiVersion", "kind", "metadata")]
        if not found:
            break
        *parents, last = draw(st.sampled_from(found))
        parent = made
        for key in parents:
            parent = parent[key]
        change = draw(st.sampled_from(["replace", "remove", "rename"]))
        if change == "replace":
            parent[last] = copy.deepcopy(draw(VALUES))
        else:
            value = parent.pop(last)
            if change == "rename" and isinstance(parent, dict):
                parent[f"{last}s"] = value
    return made


@settings(max_examples=examples(300))
@given(mutated(RULE), mutated(SUBJECT) | mutated(DAEMON) | st.just(SUBJECT))
def test_no_manifest_crashes_the_validation(rule: dict[str, Any], subject: dict[str, Any]) -> None:
    objects = (rule, subject, NODE_POOL)
    store = store_of(*objects)
    found = check_documents([Document(one, "f.yaml", 1) for one in objects], store)
    for one in found:
        assert one.finding.message
        assert one.level in ("error", "warning")
    answer = validate_overrider(request(rule), store=store)
    codes = {
        one.finding.code for one in found if one.key.group_kind.kind == "YurtAppOverrider" and one.level == "error"
    }
    assert answer.allowed or codes, "admission refuses what files are fine with"
    made = request(subject)
    made.kind = type(made.kind)("apps.openyurt.io", "v1alpha1", subject["kind"])
    assert validate_subject(made, store=store).allowed


GOOD = entry("a", items=[image("nginx", "nginx:2")])


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"entries": None}, [("required", "entries")]),
        ({"subject": {"kind": None, "name": "demo"}}, [("required", "subject.kind")]),
        ({"subject": {"kind": "YurtAppSet", "nmae": "demo"}}, [("unknown-field", "subject.nmae")]),
        ({"status": None}, []),
        ({"entries": [{**GOOD, "patches": None, "poolSelector": None}]}, []),
        ({"entries": [{**GOOD, "items": [None]}]}, [("invalid", "entries[0].items[0]")]),
        ({"entries": [{**GOOD, "items": [{"replicas": 10**20}]}]}, [("invalid", "entries[0].items[0].replicas")]),
        # A mistake hides no other one.
        (
            {"entries": [{"pools": "a", "patches": [patch("add", "spec.paused", True)]}, {"pools": ["-"], "itms": []}]},
            [
                ("invalid", "entries[0].pools"),
                ("unknown-field", "entries[1].itms"),
                ("invalid", "entries[0].patches[0].path"),
                ("invalid", "entries[1].pools[0]"),
            ],
        ),
    ],
)
def test_the_schema_decides_about_types_and_names(changed: Any, found: list[tuple[str, str]]) -> None:
    assert [(one.code, one.field) for one in check_rules({**overrider(GOOD), **changed})] == found


def test_of_a_large_overrider_the_first_violation_is_reported() -> None:
    rule = overrider(*[{**GOOD, "itms": []} for _ in range(2000)])
    assert [one.code for one in check_rules(rule)] == ["unknown-field"]
