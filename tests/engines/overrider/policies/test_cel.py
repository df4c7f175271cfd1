"""Values as CEL."""

import pytest

from fleethook.engines.overrider.entries.value_marks import POOL_MARK, REPLICAS_MARK, entry_mark, number_mark, text_mark
from fleethook.engines.overrider.policies.cel import (
    Unsupported,
    Writer,
    escape,
    find_member,
    join,
    join_all,
    key_of_element,
    quote,
)
from fleethook.model.merge_keys import WORKLOAD, MergeSchema

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
