"""The limits of an evaluation: hostile conditions run in a separate process with bounded memory and without a clock."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.cost_and_length_limits import (
    LIMITS,
    MAX_EXPANDED_LENGTH,
    MAX_LENGTH,
    EvaluationLimits,
    check_length,
    compute_expanded_length,
)
from fleethook.cel.program import Activation, CostError, compile_condition
from tests.cel.evaluating import bind
from tests.waiting import NET

PROGRAM = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
from fleethook.cel.program import Activation, EvaluationError, compile_condition
big = {
    "items": [{"a": i, "b": "x" * 20, "c": {"d": True, "e": None}} for i in range(45_000)],
    "text": "a" * 3_000_000,
    "numbers": list(range(9_000)),
}
for expression in json.load(sys.stdin):
    try:
        print(compile_condition(expression).evaluate(Activation(object_=big, old_object=None, request={})), flush=True)
    except EvaluationError as error:
        print(error.cause, flush=True)
"""
LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"


def evaluate_all(expressions: list[str]) -> dict[str, str]:
    """Run PROGRAM and return its output. The timeout is a net: without limits, some expressions run for hours."""
    command, directory = [sys.executable, "-c", PROGRAM], Path(__file__).parents[2]
    ran = subprocess.run(
        command, cwd=directory, input=json.dumps(expressions), capture_output=True, text=True, timeout=NET, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    return dict(zip(expressions, ran.stdout.splitlines(), strict=True))


EXPENSIVE = [
    "object.numbers.all(x, object.numbers.all(y, object.numbers.all(z, x + y + z >= 0)))",
    "object.numbers.all(x, " + " && ".join(["x > -1"] * 5_000) + ")",
    "object.numbers.all(x, object.items == object.items)",
    "object.numbers.all(x, [optional.of(object)].all(y, y == y))",
    # A variable of a comprehension hides a variable of the request.
    "[object.items].all(oldObject, object.numbers.all(x, oldObject == oldObject))",
    " || ".join(["object.items != object.items"] * 300),
    " || ".join(["dyn(object.items) != dyn(object.items)"] * 2_000),
    " || ".join(["object.text.contains('b')"] * 2_000 + ["false == (object.text == '')"]),
    " || ".join(["object.text.upperAscii() == ''"] * 2_000),
    "object.text.contains(object.text.substring(1000000) + 'b')",
    "object.numbers.map(x, object.items) == object.numbers.map(x, object.items)",
    # A hundred references to one list take little memory and long to compare.
    "object.numbers.slice(0, 100).map(x, object.items) == object.numbers.slice(0, 100).map(x, object.items)",
    "object.numbers.map(x, object.numbers).flatten().size() == 1",
    "[object.text]" + ".map(x, x + x)" * 25 + ".size() == 1",
    "[object.numbers]" + ".map(x, x + x)" * 25 + ".size() == 1",
    "object.text.replace('a', object.text).size() == 1",
    "object.numbers.map(x, object.text).join().size() == 1",
    "sets.equivalent(object.items, object.items)",
    "object.items.distinct().size() == 1",
    "lists.range(1000000000).size() == 1",
    "object.text.matches('((a?){30}){30}b')",
    "object.numbers.all(x, object.text.find('(.*a){10}b') == '')",
    "object.text.findAll('a').size() == 1",
]


def test_an_expensive_expression_exceeds_the_limit() -> None:
    assert evaluate_all(EXPENSIVE) == dict.fromkeys(EXPENSIVE, LIMIT_EXCEEDED)


ORDINARY = [
    "object.items == object.items",
    "object.items[44999].b == object.items[0].b",
    "object.numbers.all(x, x >= 0) && object.numbers.exists(x, x == 900)",
    "object.numbers.slice(0, 1000).map(x, x + 1).size() == 1000",
    "object.items.slice(0, 300).filter(x, x.b.startsWith('x')).map(x, x.a).size() == 300",
    "object.text.contains('aa') && object.text.size() == 3000000",
    "17 in object.numbers",
    # Kubernetes charges little for these expressions, and they take little time here.
    "object.numbers.all(x, size(object.text) > 1)",
    "object.items.all(x, x == x)",
    "object.numbers.filter(x, x > 3).size() == 8996",
    "object.numbers.transformMap(k, v, v).size() == 9000",
    "optional.of(object.items)" + ".optMap(a, [a, a])" * 8 + ".orValue([]) != []",
]


def test_ordinary_expressions_over_large_objects_stay_within_the_limits() -> None:
    assert evaluate_all(ORDINARY) == dict.fromkeys(ORDINARY, "True")


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.hosts.all(h, h != object.metadata.name) && 'app' in object.metadata.labels",
        "object.spec.hosts.map(h, h + '.example.org').filter(h, h in object.spec.hosts) == []",
    ],
)
def test_the_usage_of_an_expression_is_deterministic(expression: str) -> None:
    counted = {compile_condition(expression).measure(bind()) for _ in range(3)}

    (measured,) = counted
    assert measured.value
    assert 0 < measured.cost < 200


def test_nested_comprehensions_count_each_element_once() -> None:
    """The cost of nested comprehensions over one object is linear in the number of its elements."""
    expression = "object.c.all(c, c.env.all(e, e.name != e.value))"
    few, many = (
        compile_condition(expression).measure(_bind({"c": [{"env": [{"name": "a", "value": "b"}] * 10}] * count}))[1]
        for count in (10, 100)
    )

    assert many < 11 * few


def _bind(object_: object) -> Activation:
    return Activation(object_=object_, old_object=None, request={})  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [LIMITS._replace(cost=2), LIMITS._replace(work=399)])
def test_either_limit_ends_the_evaluation(limits: EvaluationLimits) -> None:
    condition, activation = (
        compile_condition("object == oldObject"),
        bind({"l": [1] * 400}, old_object={"l": [1] * 400}),
    )
    enough = EvaluationLimits(cost=3, work=401)

    assert condition.measure(activation, enough).value
    with pytest.raises(CostError) as failed:
        condition.measure(activation, limits)
    assert failed.value.cause == "operation cancelled: actual cost limit exceeded"
    assert failed.value.cost > 0


def test_work_counts_a_quarter_of_the_cost() -> None:
    measurement = compile_condition("object.l == oldObject.l").measure(
        bind({"l": [1] * 400}, old_object={"l": [1] * 400})
    )

    assert measurement.used == measurement.cost + 100


def test_the_length_of_an_expression_is_limited() -> None:
    check_length("x" * MAX_LENGTH)
    with pytest.raises(ExpressionError, match="longer than 100000 characters"):
        check_length("x" * (MAX_LENGTH + 1))
    with pytest.raises(ExpressionError, match="too many optMap and optFlatMap"):
        check_length("x.optMap(x, x)" * 20)


def test_each_repeating_macro_doubles_the_length() -> None:
    assert compute_expanded_length("a.optMap(x, x).optFlatMap(x, x)") == 31 * 4
    assert compute_expanded_length("a.map(x, x)") == 11
    assert compute_expanded_length(".optMap" * 1_000) > MAX_EXPANDED_LENGTH
