from fleethook.cel.compile_error_list import SourceErrors
from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax_tree import Literal, Node, walk


def read(expression: str) -> Node:
    tree = parse(expression, SourceErrors(expression))
    assert tree is not None
    return tree


def test_a_walk_yields_each_node_before_those_below_it() -> None:
    found = [one.value if isinstance(one, Literal) else type(one).__name__ for one in walk(read("[1, {2: f(3)}][4].x"))]
    assert found == ["Select", "Call", "ListLiteral", 1, "MapLiteral", "MapEntry", 2, "Call", 3, 4]
