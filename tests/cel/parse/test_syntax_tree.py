from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax_tree import Literal, Node, SourceErrors, walk


def read(expression: str) -> Node:
    tree = parse(expression, SourceErrors(expression))
    assert tree is not None
    return tree


def test_a_walk_yields_each_node_before_those_below_it() -> None:
    found = [one.value if isinstance(one, Literal) else type(one).__name__ for one in walk(read("[1, {2: f(3)}][4].x"))]
    assert found == ["Select", "Call", "ListLiteral", 1, "MapLiteral", "MapEntry", 2, "Call", 3, 4]


def test_errors_are_sorted_by_their_places_and_marked() -> None:
    errors = SourceErrors("a\n\tb\u00e9c")
    errors.add(4, "later")
    errors.add(0, "first")
    errors.add_without_place("everywhere")

    assert errors.format() == (
        "ERROR: <input>:-1:0: everywhere\n"
        "ERROR: <input>:1:1: first\n | a\n | ^\n"
        "ERROR: <input>:2:3: later\n |  b\u00e9c\n | ..\uff3e"
    )


def test_errors_beyond_a_hundred_are_counted() -> None:
    errors = SourceErrors("x" * 20_000)
    for offset in range(103):
        errors.add(offset, "bad")

    assert errors.format().splitlines()[-1] == "3 more errors were truncated"
    assert len(errors.format().splitlines()) == 101
    assert errors
    assert not SourceErrors("")
