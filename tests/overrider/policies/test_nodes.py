"""Places of a workload in CEL."""

from app.overrider.policies.nodes import Node, Variables, patch

ROOT = Node("object", "true", '""')


def test_a_child_is_an_empty_map_if_the_workload_lacks_it() -> None:
    variables = Variables("f0v")
    child = variables.child(variables.child(ROOT, "spec"), "a/b")
    assert child.path == '"/spec/a~1b"'
    assert child.tokens == ("spec", "a/b")
    made, _ = variables.close(f"[{child.value}, {child.exists}, {child.value}, {child.exists}]")
    assert {"name": "f0v1", "expression": 'object[?"spec"].orValue(dyn({}))'} in made


def test_the_pointer_of_an_element_keeps_its_index() -> None:
    assert Node("x", "true", '"/a" + "/" + string(variables.f0v1)').pointer("b") == (
        '"/a" + "/" + string(variables.f0v1) + "/b"'
    )


def test_an_expression_is_stored_once() -> None:
    variables = Variables("f0v")
    assert variables.let("1 + 1") == variables.let("1 + 1") == "variables.f0v0"


def test_a_variable_that_one_expression_reads_becomes_a_part_of_it() -> None:
    variables = Variables("f0v")
    once, twice = variables.let('"\\\\1"'), variables.let("b")
    looped = variables.let("c")
    in_macro = variables.let(f"[1].map(x, {looped})")
    made, result = variables.close(f"{once} + {twice} + {twice} + {in_macro}[0]")
    assert result == '("\\\\1") + variables.f0v1 + variables.f0v1 + ([1].map(x, variables.f0v2))[0]'
    assert made == [{"name": "f0v1", "expression": "b"}, {"name": "f0v2", "expression": "c"}]


def test_an_unread_variable_is_dropped() -> None:
    variables = Variables("f0v")
    variables.let("a")
    assert variables.close("1") == ([], "1")


def test_an_operation_without_a_value_has_no_value() -> None:
    assert patch("remove", '"/a"') == 'JSONPatch{op: "remove", path: "/a"}'
    assert patch("add", '"/a"', "1") == 'JSONPatch{op: "add", path: "/a", value: 1}'
