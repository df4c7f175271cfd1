from app.dispatch.cel.checked_expr import Tree, find_set_member, read_tree
from app.dispatch.cel.environment import check


def read(expression: str) -> Tree:
    return read_tree(check(expression)[1])


def test_a_call_has_its_function_and_arguments() -> None:
    call = read("object.a == 'x'").expr.call

    assert call.function == "_==_"
    assert [find_set_member(argument, after=2) for argument in call.args] == ["select", "const"]
    assert call.args[0].select.field == "a"
    assert call.args[0].select.operand.ident.name == "object"
    assert call.args[1].const.string_value == "x"


def test_an_empty_string_is_a_set_constant() -> None:
    assert find_set_member(read("''").expr.const) == "string_value"


def test_references_name_the_overloads_of_a_call() -> None:
    tree = read("'a'.startsWith('b')")
    overloads = {entry.key: list(entry.value.overload_id) for entry in tree.references}

    assert overloads[tree.expr.id] == ["starts_with_string"]


def test_a_macro_is_a_comprehension() -> None:
    assert read("[1].all(x, x > 0)").expr.comprehension.iter_var == "x"
