from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.source_errors import SourceErrors
from fleethook.cel.parse.syntax import Ident, Literal, Node, copy_tree, walk


def read(expression: str) -> Node:
    tree = parse(expression, SourceErrors(expression))
    assert tree is not None
    return tree


def test_a_walk_yields_each_node_before_those_below_it() -> None:
    found = [one.value if isinstance(one, Literal) else type(one).__name__ for one in walk(read("[1, {2: f(3)}][4].x"))]
    assert found == ["Select", "Call", "ListLiteral", 1, "MapLiteral", "Entry", 2, "Call", 3, 4]


def test_a_copy_shares_no_node() -> None:
    tree = read("a.b(c)")
    copied = copy_tree(tree)
    assert not {id(one) for one in walk(tree)} & {id(one) for one in walk(copied)}
    assert [one.name for one in walk(copied) if isinstance(one, Ident)] == ["a", "c"]
