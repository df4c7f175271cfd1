from typing import Any

import pytest

from fleethook.model.selectors import compile_selector, validate_selector

LABELS = {"app": "demo", "tier": "web"}


def expression(operator: str, key: str = "app", values: Any = None) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "demo"}}, True),
        ({"matchLabels": {"app": "demo", "x": "y"}}, False),
        (expression("In", values=["demo", "x"]), True),
        (expression("In", values=["x"]), False),
        (expression("In", key="none", values=["x"]), False),
        (expression("NotIn", values=["x"]), True),
        (expression("NotIn", values=["demo"]), False),
        (expression("NotIn", key="none", values=["x"]), True),
        (expression("Exists"), True),
        (expression("Exists", key="none"), False),
        (expression("DoesNotExist", key="none"), True),
        (expression("DoesNotExist"), False),
        (expression("Bogus"), False),
        ({"matchExpressions": [None]}, False),
        ({"matchLabels": {"app": "demo"}, **expression("Exists", key="none")}, False),
    ],
)
def test_selection(selector: Any, selected: bool) -> None:
    assert compile_selector(selector)(LABELS) is selected


@pytest.mark.parametrize(
    ("selector", "place"),
    [
        ([], "/s"),
        ({"matchLabels": {"a b": "c"}}, "/s/matchLabels"),
        ({"matchLabels": {"a": "-"}}, "/s/matchLabels"),
        ({"matchLabels": {"a": 1}}, "/s/matchLabels"),
        ({"matchLabels": {"Upper.Case/a": "b"}}, "/s/matchLabels"),
        (expression("In"), "/s/matchExpressions/0/values"),
        (expression("Exists", values=["x"]), "/s/matchExpressions/0/values"),
        (expression("Gt", values=["1"]), "/s/matchExpressions/0/operator"),
        (expression("In", key="", values=["x"]), "/s/matchExpressions/0/key"),
        (expression("In", values=["x" * 64]), "/s/matchExpressions/0/values"),
        ({"matchExpressions": ["x"]}, "/s/matchExpressions/0"),
    ],
)
def test_problems_have_their_pointer(selector: Any, place: str) -> None:
    assert [found for found, _ in validate_selector(selector, "/s")] == [place]


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"example.com/a_b.c": ""}}, expression("In", values=["A-1"])])
def test_a_valid_selector_has_no_problems(selector: Any) -> None:
    assert list(validate_selector(selector, "/s")) == []
