"""Values as CEL."""

import pytest

from fleethook.engines.overrider.policies.cel_expressions import (
    MAX_LENGTH,
    Node,
    Unsupported,
    Variables,
    Writer,
    escape,
    find_member,
    join,
    join_all,
    key_of_element,
    patch,
    quote,
)
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.workload_schema.value_marks import POOL_MARK, REPLICAS_MARK, entry_mark, number_mark, text_mark

CONTAINERS = WORKLOAD.fields["spec"].fields["template"].fields["spec"].fields["containers"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", '"a"'),
        ("", '""'),
        ('say "hi"\n', '"say \\"hi\\"\\n"'),
        (7, "7"),
        (True, "true"),
        (None, "null"),
        (0.5, "0.5"),
        ([1, "a"], '[dyn(1), dyn("a")]'),
        ({"a": {}}, '{"a": dyn({})}'),
        (f"x-{POOL_MARK}", '("x-" + variables.row[2])'),
        (text_mark(1), "variables.row[5]"),
        (REPLICAS_MARK, "int(variables.row[3])"),
        (number_mark(1), "int(variables.row[7])"),
    ],
)
def test_a_value_is_an_expression_with_a_variable_for_each_mark(value: object, expected: str) -> None:
    assert Writer(2).value(value) == expected


def test_the_number_of_an_entry_is_refused() -> None:
    with pytest.raises(Unsupported, match="number of an entry"):
        Writer(0).text(entry_mark(0))


def test_the_key_of_an_element_joins_its_identifying_members() -> None:
    ports = CONTAINERS.fields["ports"]
    assert Writer(0).key((53, "UDP")) == '"53/UDP"'
    expected = 'string(e.?containerPort.orValue(dyn(""))) + "/" + e.?protocol.orValue(dyn("TCP"))'
    assert key_of_element("e", ports) == expected
    assert key_of_element("e", CONTAINERS) == 'e.?name.orValue(dyn(""))'
    assert key_of_element("e", MergeSchema(identity=(("key", ""),))) == 'e.?key.orValue(dyn(""))'


def test_names_are_escaped_for_pointers_and_quoted_for_cel() -> None:
    assert escape("a/b~c") == "a~1b~0c"
    assert quote("ä") == '"ä"'


def test_joining_makes_a_balanced_tree() -> None:
    assert join([], "+", empty="[]") == "[]"
    assert join([*"abcd"], "+", empty="[]") == "(a + b + c + d)"
    assert join_all([]) == "true"
    depth = longest = 0
    for character in join_all(["x"] * 1_000):
        depth += {"(": 1, ")": -1}.get(character, 0)
        longest = max(longest, depth)
    assert longest < 25


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("app", "o.?app"),
        ("_a1", "o.?_a1"),
        ("namespace", "o.?namespace"),
        ("in", 'o[?"in"]'),
        ("null", 'o[?"null"]'),
        ("a-b", 'o[?"a-b"]'),
        ("1a", 'o[?"1a"]'),
        ("é", 'o[?"é"]'),
        ("", 'o[?""]'),
    ],
)
def test_only_an_identifier_is_selected(name: str, expected: str) -> None:
    assert find_member("o", name) == expected


ROOT = Node("object", "true", '""')


def test_a_child_is_an_empty_map_if_the_workload_lacks_it() -> None:
    variables = Variables("f0v")
    child = variables.child(variables.child(ROOT, "spec"), "a/b")
    assert child.path == '"/spec/a~1b"'
    assert child.tokens == ("spec", "a/b")
    made, result = variables.close(f"[{child.value}, {child.exists}, {child.optional('b')}]")
    of_child = 'object.?spec[?"a/b"]'
    assert (made, result) == ([], f"[({of_child}.orValue(dyn({{}}))), ({of_child}.hasValue()), {of_child}.?b]")


def test_a_member_of_an_element_is_found_in_its_map() -> None:
    element = Node("variables.f0v1", "variables.f0v0 >= 0", '"/a"')
    assert element.has("b") == '"b" in variables.f0v1'
    assert element.optional("b") == "variables.f0v1.?b"


def test_the_pointer_of_an_element_keeps_its_index() -> None:
    assert Node("x", "true", '"/a" + "/" + string(variables.f0v1)').pointer("b") == (
        '"/a" + "/" + string(variables.f0v1) + "/b"'
    )


def test_an_expression_is_stored_once() -> None:
    variables = Variables("f0v")
    assert variables.let("1 + 1") == variables.let("1 + 1") == "variables.f0v0"


def test_a_variable_that_one_expression_reads_becomes_a_part_of_it() -> None:
    variables = Variables("f0v")
    long = "b" * 400
    once, twice = variables.let('"\\\\1"'), variables.let(long)
    inner = variables.let("[2].map(y, y)")
    in_macro = variables.let(f"[1].map(x, {inner})")
    made, result = variables.close(f"{once} + {twice} + {twice} + {in_macro}[0]")
    assert result == '("\\\\1") + variables.f0v1 + variables.f0v1 + ([1].map(x, variables.f0v2))[0]'
    assert made == [{"name": "f0v1", "expression": long}, {"name": "f0v2", "expression": "[2].map(y, y)"}]


def test_a_cheap_expression_becomes_a_part_of_all_its_readers() -> None:
    variables = Variables("f0v")
    cheap = variables.let("a.?b")
    loop = variables.let(f"{cheap}.map(x, {cheap})")
    made, result = variables.close(f"{loop} + {loop} + {cheap}")
    assert made == [{"name": "f0v1", "expression": "(a.?b).map(x, (a.?b))"}]
    assert result == "variables.f0v1 + variables.f0v1 + (a.?b)"


def test_copies_of_an_expression_are_limited() -> None:
    variables = Variables("f0v")
    read = variables.let("a" * 101)
    assert len(variables.close(f"{read} + {read} + {read}")[0]) == 0
    assert len(variables.close(f"{read} + {read} + {read} + {read}")[0]) == 1
    assert len(variables.close(f"[1].map(x, {read})")[0]) == 1


def test_a_variable_that_only_unread_ones_read_is_dropped() -> None:
    variables = Variables("f0v")
    read = variables.let("[1].map(x, x)")
    variables.let(f"{read} + {read}")
    assert variables.close(f"{read}[0]") == ([], "([1].map(x, x))[0]")


def test_an_unread_variable_is_dropped() -> None:
    variables = Variables("f0v")
    variables.let("a")
    assert variables.close("1") == ([], "1")


def test_an_operation_without_a_value_has_no_value() -> None:
    assert patch("remove", '"/a"') == '{"op": dyn("remove"), "path": dyn("/a")}'
    assert patch("add", '"/a"', "1") == '{"op": dyn("add"), "path": dyn("/a"), "value": dyn(1)}'


def test_long_conjunctions_are_divided() -> None:
    variables = Variables("f0v")
    parts = [f"({letter * 1_500})" for letter in "abcde"]
    made, result = variables.close(variables.join(parts, "&&", empty="true"))
    assert len(made) == 2
    assert max(len(one["expression"]) for one in made) <= MAX_LENGTH
    assert [result.count(f"variables.f0v{number}") for number in range(3)] == [0, 1, 1]
    assert all(part in result + "".join(one["expression"] for one in made) for part in parts)


def test_the_division_counts_the_variables_that_become_a_part() -> None:
    variables = Variables("f0v")
    read = [variables.let(f"{number:02}" * 140) for number in range(40)]
    made, result = variables.close(variables.join(read, "&&", empty="true"))
    assert len(made) == 3
    assert max(map(len, (result, *(one["expression"] for one in made)))) <= MAX_LENGTH + 40 * len(" && ()")


def test_joining_nothing_is_empty() -> None:
    assert Variables("f0v").join([], "&&", empty="true") == "true"
