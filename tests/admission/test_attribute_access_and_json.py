import json
import math
import re
from collections import ChainMap
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.admission.attribute_access_and_json import Members, to_plain, view
from fleethook.admission.parameters_and_typed_objects import PLAIN
from fleethook.patch import apply, diff
from tests.hypothesis_profiles import examples


def test_members_are_attributes_at_every_depth() -> None:
    pod: Any = view({"spec": {"containers": [{"image": "nginx"}]}})
    pod.spec.containers[0].image = "nginx:1.29"
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
    pod.update(status={"phase": "Pending"})
    assert pod.spec.securityContext.seccompProfile.type == "RuntimeDefault"
    assert pod.status.phase == "Pending"
    assert pod["spec"]["containers"] == [{"image": "nginx:1.29"}]


def test_a_missing_member_names_the_remedy() -> None:
    with pytest.raises(AttributeError, match=r"no member 'spec'; read an optional member with \.get\('spec'\)"):
        _ = Members().spec
    with pytest.raises(AttributeError, match="no member 'spec'"):
        del Members().spec


def test_the_name_of_a_method_needs_brackets() -> None:
    table = Members()
    with pytest.raises(AttributeError, match=r"write \['items'\] = … to set the member"):
        table.items = []  # type: ignore[method-assign,assignment]
    table["items"] = [{"key": "a"}]
    assert table["items"][0].key == "a"


STORED: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "ports": [1]}, {"name": "b"}]},
}


@pytest.mark.parametrize(
    "read",
    [
        lambda pod: pod.spec,
        lambda pod: pod["spec"],
        lambda pod: pod.get("spec"),
        lambda pod: pod.pop("spec"),
        lambda pod: pod.setdefault("spec", {}),
        lambda pod: dict(pod)["spec"],
        lambda pod: {**pod}["spec"],
        lambda pod: pod.copy()["spec"],
        lambda pod: (pod | {"status": {}})["spec"],
        lambda pod: ({"status": {}} | pod)["spec"],
        lambda pod: dict(pod.items())["spec"],
        lambda pod: list(pod.values())[-1],
        lambda pod: deepcopy(pod)["spec"],
    ],
)
def test_every_way_to_read_a_member_returns_members(read: Any) -> None:
    assert read(view(deepcopy(STORED))).containers[0].name == "a"


def test_a_missing_member_can_have_a_default() -> None:
    pod: Any = view(STORED)
    assert pod.get("status") is None
    assert pod.get("status", 1) == pod.pop("status", 1) == 1
    with pytest.raises(KeyError):
        pod.pop("status")


def test_unchanged_parts_stay_those_of_the_origin() -> None:
    pod: Any = view(STORED)
    assert to_plain(pod, STORED) is STORED
    assert pod.spec.containers[0].ports[0] == 1
    assert to_plain(pod, STORED) is STORED
    pod.spec.containers[1].image = "nginx"
    made: Any = to_plain(pod, STORED)
    assert made["metadata"] is STORED["metadata"]
    assert made["spec"]["containers"][0] is STORED["spec"]["containers"][0]
    assert diff(STORED, made) == [{"op": "add", "path": "/spec/containers/1/image", "value": "nginx"}]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda pod: pod.spec.containers.insert(0, {"name": "c"}), [{"name": "c"}, *STORED["spec"]["containers"]]),
        (lambda pod: pod.spec.containers.reverse(), STORED["spec"]["containers"][::-1]),
        (lambda pod: pod.spec.containers.pop(), STORED["spec"]["containers"][:1]),
        (lambda pod: pod.spec.update(containers=("a", 1)), ["a", 1]),
        (lambda pod: pod.spec.update(containers={1: {"a": None}}), {"1": {"a": None}}),
    ],
)
def test_changed_lists_and_other_values_become_json(change: Any, expected: Any) -> None:
    pod: Any = view(STORED)
    change(pod)
    assert to_plain(pod, STORED) == {**STORED, "spec": {"containers": expected}}


def test_a_name_that_is_no_text_becomes_text() -> None:
    pod: Any = view(STORED)
    pod.metadata.labels[1] = "c"
    assert to_plain(pod, STORED) == {**STORED, "metadata": {"labels": {"a": "b", "1": "c"}}}


def make_cycle() -> dict[str, Any]:
    made: dict[str, Any] = {"b": [{}]}
    made["b"][0]["c"] = made
    return made


def make_deep() -> Any:
    made: Any = 1
    for _ in range(5000):
        made = {"b": made}
    return made


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "/spec/a: JSON has no object: store a dict"),
        ([1, {"b": range(2)}], "/spec/a/1/b: JSON has no range: store a dict"),
        ({"b/c": {None: 1}}, "/spec/a/b~1c: None is no name of a member: give a text"),
        ({True: 1}, "/spec/a: True is no name of a member: give a text"),
        ("\ud800", "/spec/a: 'utf-8' codec can't encode character"),
        (make_cycle(), "/spec/a/b/0/c: the value contains itself"),
        (make_deep(), "/spec/a/b: the value has more than 100 levels"),
    ],
)
def test_a_value_that_json_does_not_have_is_an_error_with_its_pointer(value: Any, problem: str) -> None:
    pod: Any = view(STORED)
    pod.spec.a = value
    with pytest.raises(TypeError, match=f"^{re.escape(problem)}"):
        to_plain(pod, STORED)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"c", "a", "d", "b"}, ["a", "b", "c", "d"]),
        ({Text("a"): Text("b"), "c": Number(3)}, {"a": "b", "c": 3}),
        (MappingProxyType({"a": [ChainMap({"b": 1})]}), {"a": [{"b": 1}]}),
        (({"a": True},), [{"a": True}]),
    ],
)
def test_usual_types_of_python_become_json(value: Any, expected: Any) -> None:
    pod: Any = view(STORED)
    pod.spec.a = value
    assert to_plain(pod, STORED) == {**STORED, "spec": {**STORED["spec"], "a": expected}}


def test_a_dict_that_a_rule_stores_counts_as_it_is_when_it_is_read() -> None:
    pod: Any = view(STORED)
    member, element = {"name": "m"}, {"name": "c"}
    pod.spec.member = member
    pod.spec.containers.append(element)
    member["late"] = element["late"] = "1"
    made: Any = to_plain(pod, STORED)
    assert (made["spec"]["member"], made["spec"]["containers"][2]) == (member, element)
    pod.spec.member.more = pod.spec.containers[2].more = "2"
    assert "more" not in member | element


@pytest.mark.parametrize(
    "add",
    [
        lambda listed, one: listed.append(one),
        lambda listed, one: listed.insert(9, one),
        lambda listed, one: listed.extend([one]),
        lambda listed, one: listed.__iadd__([one]),
        lambda listed, one: listed.__setitem__(slice(9, 9), [one]),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda listed: listed[-1],
        lambda listed: [*listed][-1],
        lambda listed: listed[:][-1],
        lambda listed: max(listed, key=lambda one: one.name),
    ],
)
def test_an_added_element_has_attributes(add: Any, read: Any) -> None:
    pod: Any = view(STORED)
    add(pod.spec.containers, {"name": "z"})
    assert read(pod.spec.containers).name == "z"


VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(["a", "b/c~d"]) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
CHANGES: dict[type, list[Any]] = {
    dict: [
        lambda one, value: one.update(a=value),
        lambda one, value: one.setdefault("b", value),
        lambda one, value: one.__setitem__("c", value),
        lambda one, value: one.__ior__({"d": value}),
        lambda one, value: one.pop(next(iter(one), ""), value),
        lambda one, value: one.__setitem__("a", one.get("b", value)),
        lambda one, value: one.__setitem__("b", one | {"d": value}),
        lambda one, value: one.clear() if value is None else None,
    ],
    list: [
        lambda one, value: one.append(value),
        lambda one, value: one.insert(0, value),
        lambda one, value: one.extend([value, one[0]]) if one else one.extend([value]),
        lambda one, value: one.reverse() or one.append(value),
        lambda one, value: one.pop() if one else one.append(value),
        lambda one, value: one.__setitem__(slice(0, 1), [value]),
        lambda one, value: one.remove(one[-1]) if one else one.append(value),
        lambda one, value: one.append([*one, value]) if len(one) < 4 else one.clear(),
    ],
}


def change_inner(document: Any, way: list[int], number: int, value: Any) -> None:
    """Change the object or list to which a way through a document leads."""
    for step in way:
        inner = [*(document.values() if isinstance(document, dict) else document)]
        inner = [one for one in inner if isinstance(one, dict | list)]
        if not inner:
            break
        document = inner[step % len(inner)]
    changes = CHANGES[dict if isinstance(document, dict) else list]
    changes[number % len(changes)](document, value)


@settings(max_examples=examples(400))
@given(
    st.dictionaries(st.sampled_from("abcd"), VALUES),
    st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 7), VALUES), max_size=6),
)
def test_a_rule_changes_a_view_as_it_would_change_plain_json(
    origin: dict[str, Any], changes: list[tuple[list[int], int, Any]]
) -> None:
    before, plain = deepcopy(origin), deepcopy(origin)
    viewed = view(before)
    for way, number, value in changes:
        change_inner(viewed, way, number, value)
        change_inner(plain, way, number, deepcopy(value))
    assert to_plain(viewed, before) == plain
    assert before == origin
    assert apply(origin, diff(before, to_plain(viewed, before))) == plain


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [math.nan], {"a": (1, {"b": math.nan})}])
def test_a_number_that_json_does_not_have_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match=r"/a.*: JSON has no number"):
        to_plain({"a": value}, {"a": None})
    assert to_plain({"a": [None, 1.5]}, {}) == {"a": [None, 1.5]}


def test_a_read_object_can_be_encoded() -> None:
    pod: Any = PLAIN.decode(msgspec.json.encode(STORED))
    assert pod.spec.containers[0].name == "a"
    assert PLAIN.encode(pod) == json.loads(json.dumps(pod)) == STORED
