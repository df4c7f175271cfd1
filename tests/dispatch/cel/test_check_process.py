import pytest

from app.dispatch.cel.check_process import answer
from app.dispatch.cel.checked_expr import read_tree
from app.dispatch.cel.environment import check


@pytest.mark.parametrize(("expression", "mark"), [("object.a == 1", b"+"), ("object.a", b"-"), ("1 + 1", b"-")])
def test_the_answer_has_the_type_and_the_checked_expression(expression: str, mark: bytes) -> None:
    answered = answer(expression)

    assert answered[:1] == mark
    assert read_tree(answered[1:]).expr == read_tree(check(expression)[1]).expr


def test_the_answer_for_an_invalid_expression_is_its_error() -> None:
    assert answer("object.a ==").startswith(b"!compilation failed: ERROR: <input>:1:12: Syntax error")
