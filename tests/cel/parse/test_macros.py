import pytest

from fleethook.cel import ExpressionError, compile_condition
from fleethook.cel.check.types import read_functions
from fleethook.cel.parse.macros import MACROS
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    has(object.kind) && !has(object.absent)
    [1, 2].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)
    [1, 2].all(i, v, v > i) && [5].exists(i, v, i == 0) && [1, 1].exists_one(i, v, i == 1) && [3].existsOne(i, v, v == 3)
    [1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x * 2) == [4] && [1, 2].filter(x, x > 1) == [2]
    [3, 1].transformList(i, v, v + i) == [3, 2] && [3, 1].transformList(i, v, i > 0, v) == [1]
    {'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}
    {'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && {'a': 1}.transformMapEntry(k, v, v > 1, {v: k}) == {}
    optional.of(2).optMap(x, x + 1).value() == 3 && optional.of(2).optFlatMap(x, optional.none()).orValue(0) == 0
    ['bb', 'a'].sortBy(x, size(x)) == ['a', 'bb']
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_macros_are_those_of_cel_go(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("[1].all(1, true)", "1:9: argument must be a simple name"),
        ("[1].all(__result__, true)", "1:9: iteration variable overwrites accumulator variable"),
        ("[1].all(x, x, true)", "1:12: duplicate variable name: x"),
        ("[1].map(x.y, 1) == []", "1:10: argument is not an identifier"),
        ("object.optMap(1, 2) == 1", "1:15: optMap() variable name must be a simple identifier"),
        ("'a'.sortBy(x, x) == []", "1:1: sortBy can only be applied to a list, identifier, "),
    ],
)
def test_a_macro_with_wrong_arguments_is_an_error(expression: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_condition(expression)
    assert str(caught.value).startswith(f"compilation failed: ERROR: <input>:{problem}")


def test_no_macro_hides_a_function() -> None:
    functions = read_functions()
    hidden = [
        name
        for name, count, _ in MACROS
        for overload in functions.get(name, ())
        if len(overload.arguments) == count + 1
    ]
    assert hidden == []
