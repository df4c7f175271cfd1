import pytest

from fleethook.cel import ExpressionError, compile_condition


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("duration('1 day') == duration('1s')", "1:10: invalid duration argument"),
        ("timestamp('2023-01-01') == timestamp(0)", "1:11: invalid timestamp argument"),
        ("object.a.matches('(?=a)')", "1:18: invalid matches argument"),
        ("[1, 'a'] == []", "1:5: expected type 'int' but found 'string'"),
        ("[1, dyn('a')] == []", "1:8: expected type 'int' but found 'dyn'"),
        ("{'a': 1, 'b': 1.0} == {}", "1:15: expected type 'int' but found 'double'"),
        ("{'a': 1, 2: 1} == {}", "1:10: expected type 'string' but found 'int'"),
        ("'%d'.format(['a']) == ''", "1:14: error during formatting: decimal clause can only be used on integers"),
        ("'%s'.format([1, 2]) == ''", "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%s %s'.format([1]) == ''", "1:15: index 1 out of range"),
        ("'%q'.format([1]) == ''", '1:12: could not parse formatting clause: unrecognized formatting clause "q"'),
        ("'%s'.format([[optional.of(1)]]) == ''", "1:26: error during formatting: string clause can only be used on"),
    ],
)
def test_literals_that_kube_apiserver_refuses(expression: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_condition(expression)
    assert str(caught.value).startswith(f"compilation failed: ERROR: <input>:{problem}")


@pytest.mark.parametrize(
    "expression",
    ["'%s %d'.format([['a', 1], 2]) == ''", "timestamp(object.a) == timestamp(0)", "'%s'.format(object.a) == ''"],
)
def test_values_of_requests_and_arguments_of_formats_may_differ(expression: str) -> None:
    compile_condition(expression)
