"""tests/conformance/test_cel.py compares thousands of checks with kube-apiserver's."""

import pytest

from fleethook.cel import ExpressionError, compile_condition
from fleethook.cel.check.checker import check
from fleethook.cel.check.types import format_type
from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax import SourceErrors


def find_type(expression: str) -> str:
    errors = SourceErrors(expression)
    tree = parse(expression, errors)
    assert tree is not None
    return format_type(check(tree, errors))


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("request.userInfo.groups", "list(string)"),
        ("namespaceObject.metadata.labels['a']", "string"),
        ("object.a.b", "dyn"),
        ("[1].map(x, string(x))", "list(string)"),
        ("{'a': [1]}.a[0]", "int"),
        ("object.?a.b", "optional_type(dyn)"),
        ("[].first()", "optional_type(dyn)"),
        ("true ? 1 : 2", "int"),
        ("authorizer.group('').resource('pods')", "kubernetes.authorization.ResourceCheck"),
        ("ip.isCanonical('::1')", "bool"),
    ],
)
def test_expressions_have_types(expression: str, type_: str) -> None:
    assert find_type(expression) == type_


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("objekt.a == 1", "1:1: undeclared reference to 'objekt' (in container '')"),
        ("request.nothing == ''", "1:8: undefined field 'nothing'"),
        ("namespaceObject.metadata.uid == ''", "1:25: undefined field 'uid'"),
        ("'a' + 1 == ''", "1:5: found no matching overload for '_+_' applied to '(string, int)'"),
        ("object.a.frob()", "1:14: undeclared reference to 'frob' (in container '')"),
        ("1.size() == 1", "1:7: found no matching overload for 'size' applied to 'int.()'"),
        ("1 && true", "1:1: expected type 'bool' but found 'int'"),
        ("'a'.b == 1", "1:4: type 'string' does not support field selection"),
        ("5.all(x, true)", "1:1: expression of type 'int' cannot be range of a comprehension "),
        ("kubernetes.Quantity == 1", "1:1: undeclared reference to 'kubernetes' (in container '')"),
        ("int{} == 1", "1:4: Syntax error: mismatched input '{' expecting an operator: literals of "),
    ],
)
def test_errors_are_those_of_kube_apiserver(expression: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_condition(expression)
    assert str(caught.value).startswith(f"compilation failed: ERROR: <input>:{problem}")


def test_the_type_of_a_condition_is_bool() -> None:
    with pytest.raises(ExpressionError, match=r"^must evaluate to bool but got list\(string\)$"):
        compile_condition("request.userInfo.groups")
