"""A change that is found to add nothing adds no finding, and a new member neither."""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from fleethook.patch import format_pointer
from fleethook.workload_schema import adds_no_finding, check_workload, normalize_workload
from fleethook.workload_schema.change_check import find_conditions
from fleethook.workload_schema.check import MAX_FINDINGS
from tests.hypothesis_profiles import examples
from tests.workload_samples import full_deployment, full_stateful_set

ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], ["x", None, []], {}, {"a": {}}, [{}], [{"a": 1}])
SAMPLES = {"Deployment": full_deployment(), "StatefulSet": full_stateful_set()}


def paths_of(node: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values in a document."""
    for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*path, name)
        yield from paths_of(value, *path, name)


def replaced(node: Any, path: tuple[str | int, ...], value: Any, *, adds: bool) -> Any:
    """A copy of a document with another value at a path; ... removes it. Unchanged parts are the same objects."""
    made, first = node.copy(), path[0]
    if len(path) > 1:
        made[first] = replaced(node[first], path[1:], value, adds=adds)
    elif value is ...:
        del made[first]
    elif adds and isinstance(made, list):
        made.insert(first, value)
    else:
        made[first] = value
    return made


@st.composite
def edited(draw: st.DrawFn, document: Any) -> Any:
    """A document with one more, one less or another value at some path."""
    paths = list(paths_of(document))
    path, other = draw(st.sampled_from(paths)), draw(st.sampled_from(paths))
    copied = document
    for token in other:
        copied = copied[token]
    value = draw(st.sampled_from([..., copied, copied, *ODD]))
    if isinstance(path[-1], str):
        path = (*path[:-1], draw(st.sampled_from([path[-1], other[-1] if isinstance(other[-1], str) else "a"])))
    if value is ... and path not in paths:
        value = copied
    return replaced(document, path, value, adds=draw(st.booleans()))


@given(st.data())
@settings(max_examples=examples(500))
def test_a_change_without_an_added_finding_is_found_by_the_changes_alone(data: st.DataObject) -> None:
    kind: Any = data.draw(st.sampled_from(sorted(SAMPLES)))
    before = SAMPLES[kind]
    for _ in range(data.draw(st.integers(0, 1))):
        before = normalize_workload(data.draw(edited(before)), kind)
    after = data.draw(edited(before))
    present = check_workload(before, kind)
    assume(all(one.problem != "type" for one in present) and len(present) < MAX_FINDINGS)
    added = {*check_workload(after, kind)} - {*present}
    unproven = not adds_no_finding(before, after, kind)
    event(f"added: {bool(added)}, unproven: {unproven}")
    assert unproven or not added


def test_values_of_a_wrong_type_are_never_proven_to_add_nothing() -> None:
    before: Any = full_deployment()
    for number, path in enumerate(paths_of(before)):
        after = replaced(before, path, ODD[number % len(ODD)], adds=False)
        assert not (adds_no_finding(before, after, "Deployment") and check_workload(after, "Deployment"))


USEFUL: tuple[Any, ...] = (
    {"type": "RuntimeDefault"},
    {"seccompProfile": {"type": "Localhost"}},
    {"name": "linux"},
    "Never",
    30,
)


@st.composite
def added_members(draw: st.DrawFn, document: Any) -> tuple[tuple[str, ...], Any]:
    """The path of a new member outside of lists, and its value."""
    places = {path for path in paths_of(document) if all(isinstance(token, str) for token in path)}
    path, other = draw(st.sampled_from(sorted(places))), draw(st.sampled_from(sorted(places)))
    copied = document
    for token in other:
        copied = copied[token]
    is_deleted = draw(st.booleans())
    value = document
    for token in path:
        value = value[token]
    path = path if is_deleted else (*path[:-1], other[-1])
    return path, draw(st.sampled_from([value if is_deleted else copied, copied, *ODD, *USEFUL]))


OS = ("spec", "template", "spec", "os")


def without(node: Any, path: tuple[str, ...]) -> Any:
    return replaced(node, path, ..., adds=False)


@given(st.data())
@settings(max_examples=examples(500))
def test_a_new_member_that_fulfils_its_conditions_adds_no_finding(data: st.DataObject) -> None:
    kind: Any = data.draw(st.sampled_from(sorted(SAMPLES)))
    is_pod = data.draw(st.booleans()) and kind == "Deployment"
    before: Any = SAMPLES[kind]
    path, value = data.draw(added_members(before))
    for removed in (path, OS):
        if removed in set(paths_of(before)) and (
            removed == path or (path[: len(OS)] != OS and data.draw(st.booleans()))
        ):
            before = without(before, removed)
    assume(not is_pod or path[:2] == ("spec", "template"))
    shown = path[2:] if is_pod else path
    assume(shown)
    conditions = find_conditions(None if is_pod else kind, format_pointer(shown), msgspec.json.encode(value))
    root = before["spec"]["template"] if is_pod else before
    is_harmless = conditions is not None and all(name not in find(root, place) for place, name in conditions)
    present = check_workload(before, kind)
    assume(all(one.problem != "type" for one in present) and len(present) < MAX_FINDINGS)
    added = {*check_workload(replaced(before, path, value, adds=True), kind)} - {*present}
    event(f"added: {bool(added)}, harmless: {is_harmless}")
    assert not (is_harmless and added)


def find(node: Any, path: tuple[str, ...]) -> Any:
    for token in path:
        node = node[token]
    return node


def test_the_conditions_of_usual_additions_are_known() -> None:
    profile = b'{"type":"RuntimeDefault"}'
    needs_os = ((("spec",), "os"),)
    assert find_conditions(None, "/spec/securityContext/seccompProfile", profile) == needs_os
    assert find_conditions("Deployment", "/spec/template/spec/securityContext/seccompProfile", profile) == (
        (("spec", "template", "spec"), "os"),
    )
    assert find_conditions(None, "/spec/terminationGracePeriodSeconds", b"30") is None, "containers have hooks"
    assert find_conditions(None, "/spec/priorityClassName", b'"high"') == ()
    assert find_conditions(None, "/spec/priorityClassName", b"1") is None
    assert find_conditions("Deployment", "/metadata/labels/a~1b", b'"c"') == ()
    assert find_conditions("Deployment", "/metadata/labels", b'{"a":"b"}') == ()
    assert find_conditions("Deployment", "/metadata/labels/a", b"1") is None
    assert find_conditions("Deployment", "/metadata/labels/a b", b'"c"') is None
    assert find_conditions("Deployment", "/spec/template/metadata/labels/a", b'"b"') is None, "the selector reads them"
    assert find_conditions(None, "/spec/hostname/a", b'"b"') is None
    assert find_conditions(None, "/spec/unknown", b"1") is None
    assert find_conditions(None, "/spec/containers/0/stdin", b"true") is None
    assert find_conditions(None, "/spec/securityContext/seccompProfile", b'{"type":"Localhost"}') is None
