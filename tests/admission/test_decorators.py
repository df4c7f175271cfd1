"""A decorator makes a function a rule, or tells which argument is wrong."""

from typing import Any

import pytest

from fleethook.admission import RuleError, validate


def with_parameter(pod: Any) -> None:
    pass


def with_store(store: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (with_parameter, {"expression": "true", "message": "no"}, "does not run its function: remove the parameters"),
        (with_parameter, {"expression": "true"}, "expression: give message="),
        (with_parameter, {"expression": "true", "message": "a\nb"}, "message: it has a line break"),
        (with_parameter, {"expression": "true", "message": "a\rb"}, "message: it has a line break"),
        (with_parameter, {"expression": "true", "message": " \n"}, "expression: give message="),
        (with_parameter, {"message": None}, "message: None is no text"),
        (with_parameter, {"message": "no"}, "message: it belongs to expression="),
        (
            with_parameter,
            {"expression": "true &&\n  tru || fals", "message": "no"},
            "expression: compilation failed: line 2, column 3: undeclared reference to 'tru'; line 2, column 10: undeclared reference to 'fals'$",
        ),
        (with_store, {}, "the parameter 'store' needs the kinds to follow"),
    ],
)
def test_a_bad_rule_is_an_error_with_its_place(function: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RuleError, match=rf"test_decorators\.py:\d+: {function.__name__}: .*{problem}"):
        validate("v1", "Pod", **options)(function)


def test_a_function_is_one_rule() -> None:
    with pytest.raises(RuleError, match=r"'with-name' is a rule already: .* for several kinds, call validate"):
        validate("v1", "Pod")(validate("v1", "Pod", name="with-name")(with_parameter))


def test_a_rule_is_still_a_function() -> None:
    assert validate("v1", "Pod")(with_parameter)({}) is None
    assert validate("v1", "Pod", name="kinds")(lambda pod: pod["kind"])({"kind": "Pod"}) == "Pod"
