import pytest

from app.dispatch.cel import ExpressionError, compile_condition
from app.dispatch.cel.environment import _build_environment
from app.dispatch.cel.library import DECLARED

MUST_BE_BOOL = "must evaluate to bool"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("6", MUST_BE_BOOL, id="a number is not a condition"),
        pytest.param("object", MUST_BE_BOOL, id="a dynamic value is not a condition"),
        pytest.param("object.enabled", MUST_BE_BOOL, id="a member of a dynamic value is not a condition"),
        pytest.param(
            "test() == true",
            "compilation failed: ERROR: <input>:1:5: undeclared reference to 'test' (in container '')\n"
            " | test() == true\n | ....^",
            id="an unknown function",
        ),
        pytest.param(
            "request.foo == ''",
            "compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo == ''\n | .......^",
            id="an unknown member of request",
        ),
        pytest.param(
            "\ntrue && 1",
            "compilation failed: ERROR: <input>:2:6: found no matching overload for '_&&_' applied to '(bool, int)'\n"
            " | true && 1\n | .....^",
            id="the error has the line",
        ),
    ],
)  # fmt: skip
def test_an_invalid_condition_has_kube_apiservers_error(expression: str, text: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        compile_condition(expression)

    assert str(refused.value) == text


@pytest.mark.parametrize(
    "expression",
    [
        "ip('::1').text == ''",
        "authorizer.user == ''",
        "quantity('1') == ip('::1')",
        "[1].indexOf('a') == 0",
        "['a'].sum() == 'a'",
        "'a'.reverse() == 'a'",
        "math.greatest(1, 2) == 2",
        "cel.bind(x, 1, x == 1)",
        "params == null",
        "kubernetes.lists == 1",
    ],
)
def test_names_unknown_to_kube_apiserver_do_not_compile(expression: str) -> None:
    with pytest.raises(ExpressionError, match="compilation failed: ERROR"):
        compile_condition(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(" * 5_000 + "true" + ")" * 5_000, "recursion limit exceeded"),
        ("a" * 300_000, "longer than 100000 characters"),
        ("[1]" + ".map(x, x)" * 1_000 + ".size() == 1", "recursion depth"),
        ("optional.of(1)" + ".optMap(x, x + x)" * 25 + ".hasValue()", "too many optMap"),
        ("[1].all(x, " * 30 + "true" + ")" * 30, "nested too deeply"),
        ("object.a" + " + object.a" * 40 + " == 1", "recursion depth"),
        ("\ud800", "not valid UTF-8"),
        ("\x00", "Syntax error"),
        ("", "Syntax error"),
    ],
    ids=["parentheses", "long", "chain", "doubling", "loops", "sum", "surrogate", "null", "empty"],
)
def test_hostile_texts_are_rejected(expression: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        compile_condition(expression)


def test_the_type_checker_knows_all_declared_overloads() -> None:
    declared = _build_environment().config().to_yaml()

    assert [function.overload_id for function in DECLARED if function.overload_id not in declared] == []
