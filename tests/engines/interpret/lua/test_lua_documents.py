import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleethook.engines.interpret.lua.lua_machine import LuaError, Machine
from tests.engines.interpret.lua.machines import call, value
from tests.hypothesis_profiles import examples

MACHINE = Machine()

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=25
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=6)


def is_identical(left: Any, right: Any) -> bool:
    """Return whether two documents are equal, including the order of members and the types of numbers."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(is_identical(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_identical, left, right))
    return bool(left == right)


@given(OBJECTS)
@settings(max_examples=examples(300))
def test_returned_document_is_the_same_object(document: dict[str, Any]) -> None:
    found = call("function F(a) return a end", document, machine=MACHINE)
    assert found is document


LOOKED_INTO = """
local function look(x)
  if type(x) == "table" then
    local n = #x
    for k, v in pairs(x) do look(v) end
  end
end
function F(a) look(a) return a end
"""


@given(OBJECTS, NAMES)
@settings(max_examples=examples(300))
def test_setting_a_member_changes_only_that_member(document: dict[str, Any], name: str) -> None:
    assume("\n" not in name)
    source = LOOKED_INTO.replace("return a", "a[b] = 'set' return a").replace("F(a)", "F(a, b) b = b.name")
    found = call(source, document, {"name": name}, machine=MACHINE)
    assert is_identical(found, {**document, name: "set"})


def places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    found = [at] if isinstance(document, dict) else []
    for name, child in inner:
        found += places(child, (*at, name))
    return found


def with_member(document: Any, at: tuple[Any, ...]) -> Any:
    if not at:
        return {**document, "new": [1, {}]}
    copied = document.copy()
    copied[at[0]] = with_member(document[at[0]], at[1:])
    return copied


@given(OBJECTS, st.data())
@settings(max_examples=examples(300))
def test_setting_a_nested_member_changes_only_that_member(document: dict[str, Any], data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(places(document)))
    path = [name + 1 if isinstance(name, int) else name for name in at]
    source = "function F(a, b) local x = a for _, k in ipairs(b.path) do x = x[k] end x.new = {1, b.empty} return a end"
    found = call(source, document, {"path": path, "empty": {}}, machine=MACHINE)
    assert is_identical(found, with_member(document, at))


@given(OBJECTS, NAMES)
@settings(max_examples=examples(200))
def test_removing_a_member_removes_only_that_member(document: dict[str, Any], name: str) -> None:
    assume(document.get(name, 0) is not None)  # Lua cannot remove a null, because it reads nil
    source = LOOKED_INTO.replace("return a", "a[b] = nil return a").replace("F(a)", "F(a, b) b = b.name")
    found = call(source, document, {"name": name}, machine=MACHINE)
    assert is_identical(found, {key: kept for key, kept in document.items() if key != name})


@given(OBJECTS)
@settings(max_examples=examples(200))
def test_copy_made_by_a_script_equals_the_document(document: dict[str, Any]) -> None:
    """Integers beyond 64 bits and integral floats come back as Lua's numbers, which are equal in JSON."""
    source = "local function copy(x) if type(x) ~= 'table' then return x end local t = {} for k, v in pairs(x) do t[k] = copy(v) end return t end function F(a) local t = {x = copy(a.x)} return t end"
    found = call(source, {"x": document}, machine=MACHINE)
    assert drop_lossy(found.get("x", {})) == drop_lossy(document)


def drop_lossy(document: Any) -> Any:
    """Return a document without values that a Lua copy loses: nulls in objects, empty tables, large integers."""
    if isinstance(document, dict):
        kept = {name: drop_lossy(child) for name, child in document.items() if child is not None}
        return {name: child for name, child in kept.items() if child not in ({}, [])}
    if isinstance(document, list):
        # The result for a null or an empty list in a list depends on its neighbors.
        return [
            drop_lossy(child) for child in document if child not in (None, {}, []) and drop_lossy(child) not in ({}, [])
        ]
    if isinstance(document, int) and not -(2**63) <= document < 2**63:
        return float(document)
    return document


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.spec.labels = {} a.spec.args = {} a.spec.other = {}", {"labels": {}, "args": [], "list": [{"x": {}}, {"y": []}]}),
        ("a.spec.list = {{x = {}}, {y = {}, z = {}}}", {"labels": {"a": "b"}, "args": ["x"], "list": [{"x": {}}, {"y": []}]}),
        ("a.spec.args[1] = nil", {"labels": {"a": "b"}, "args": [], "list": [{"x": {}}, {"y": []}]}),
        ("a.spec.labels.a = nil", {"labels": {}, "args": ["x"], "list": [{"x": {}}, {"y": []}]}),
        ("table.remove(a.spec.list, 1)", {"labels": {"a": "b"}, "args": ["x"], "list": [{"y": []}]}),
        ("table.insert(a.spec.list, 1, {x = {}})", {"labels": {"a": "b"}, "args": ["x"], "list": [{"x": {}}, {"x": {}}, {"y": []}]}),
        ("a.spec.list[1], a.spec.list[2] = a.spec.list[2], a.spec.list[1]", {"labels": {"a": "b"}, "args": ["x"], "list": [{"y": []}, {"x": {}}]}),
        ("a.spec.args = a.spec.list", {"labels": {"a": "b"}, "args": [{"x": {}}, {"y": []}], "list": [{"x": {}}, {"y": []}]}),
        ("a.spec.list[1].x = a.spec.labels", {"labels": {"a": "b"}, "args": ["x"], "list": [{"x": {"a": "b"}}, {"y": []}]}),
    ],
)  # fmt: skip
def test_empty_table_takes_the_type_at_its_path(source: str, expected: Any) -> None:
    document = {"spec": {"labels": {"a": "b"}, "args": ["x"], "list": [{"x": {}}, {"y": []}]}}
    before = repr(document)
    assert call(f"function F(a) {source} return a end", document) == {"spec": expected}
    assert repr(document) == before


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.list.name = 1", {"list": {"name": 1}, "object": {}}),
        ("a.list.name = {b = 1}", {"list": {"name": {"b": 1}}, "object": {}}),
        ("a.object[1] = 2", {"list": [], "object": [2]}),
        ("table.insert(a.object, {b = 1})", {"list": [], "object": [{"b": 1}]}),
    ],
)
def test_empty_list_may_become_an_object_and_an_empty_object_a_list(source: str, expected: Any) -> None:
    """Both are the same empty table for a script in Karmada."""
    assert call(f"function F(a) {source} return a end", {"list": [], "object": {}}) == expected


def test_integers_floats_and_nulls() -> None:
    document = {"big": 2**53 + 1, "least": -(2**63), "float": 2.0, "null": None, "list": [None, 1], "beyond": 2**80}
    found = value("{b = a.big, l = a.least, n = a.null == nil, i = #a.list, x = a.big + 1, f = a.float}", document)
    assert found == {"b": 2**53 + 1, "l": -(2**63), "n": True, "i": 2, "x": 2**53, "f": 2}
    assert is_identical(call("function F(a) a.x = 1 return a end", document), {**document, "x": 1})
    moved = call("function F(a) a.big, a.least = a.least, a.big return a end", document)
    assert (moved["big"], moved["least"]) == (-(2**63), 2**53 + 1)


def test_table_may_appear_in_two_places() -> None:
    source = "function F(a) local t = {x = 1} a.one = t a.two = t a.three = a.old a.four = {a.old, a.old} return a end"
    assert call(source, {"old": {"y": 2}}) == {
        "old": {"y": 2}, "one": {"x": 1}, "two": {"x": 1}, "three": {"y": 2}, "four": [{"y": 2}, {"y": 2}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a.x = a", "a table that contains itself, at x"),
        ("a.x = {y = {}} a.x.y.z = a.x", "a table that contains itself, at x.y.z"),
        ("a.list[1] = {f = function() end}", "a function cannot be part of an object, at list.1.f"),
        ("a.x = {1, 2, y = 3}", "a table with both a sequence and other keys, or with holes, at x"),
        ("a.x = {[1] = 1, [3] = 3}", "a table with both a sequence and other keys, or with holes, at x"),
        ("a.x = {[true] = 1}", "a key that is a boolean, in an object, at x"),
        ("a.list.name = 1", "a list that is given names, or has holes, at list"),
        ("a.list[1] = nil", "a list with holes: use table.remove to take elements out, at list"),
        ("a[1] = 2", "an object that is given elements"),
        ("a.empty[1], a.empty.x = 2, 3", "an object that is given elements, at empty"),
        ("a.x = 0/0", "a number that JSON does not have: "),
        ("a.x = 1/0", "a number that JSON does not have: +Inf, at x"),
        ("a.x = string", "a library cannot be part of an object, at x"),
        ("a.x = '\\255'", "returned a text that is not UTF-8"),
        ("a[0/0] = 1", "table index is NaN"),
    ],
)
def test_value_without_json_form_is_refused_with_its_path(source: str, text: str) -> None:
    with pytest.raises(LuaError) as caught:
        call(f"function F(a) {source} return a end", {"list": [1, 2, 3], "empty": {}})
    assert text in str(caught.value)
    assert caught.value.kind == "script"


def test_large_documents_are_sent_in_several_messages() -> None:
    document = {
        "list": list(range(10_000)),
        "object": {f"k{i}": {"v": i} for i in range(9_000)},
        "text": ["x" * 700_000] * 4,
    }
    source = """function F(a)
      local n = 0
      for _, v in ipairs(a.list) do n = n + v end
      for k, v in pairs(a.object) do n = n + v.v end
      for _, v in ipairs(a.text) do n = n + #v end
      a.list[5000] = 0
      a.object.k8000.v = -1
      table.insert(a.list, 7)
      return {a, n}
    end"""
    found, n = call(source, document)
    assert n == sum(range(10_000)) + sum(range(9_000)) + 2_800_000
    assert found["list"] == [*range(4999), 0, *range(5000, 10_000), 7]
    assert found["object"] == {**document["object"], "k8000": {"v": -1}}
    assert found["text"] is document["text"]


def test_floats_are_exact() -> None:
    for number in (0.1, 1e300, -0.0, 5e-324, math.pi, 1e15 + 0.5):
        assert repr(value("{x = a.x}", {"x": number})["x"]) in (repr(number), repr(int(number)))
