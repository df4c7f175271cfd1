"""Places of a workload in CEL."""

from fleethook.engines.overrider.policies.nodes import MAX_LENGTH, Node, Variables, patch

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
