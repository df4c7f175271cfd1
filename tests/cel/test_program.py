from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cel.program import Activation, EvaluationError, compile_condition
from tests.cel.evaluating import POD, REQUEST, bind, evaluate


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.namespace != 'kube-system'",
        "object.spec.replicas == 3 && type(object.spec.replicas) == int",
        "object.spec.ratio == 1.5 && type(object.spec.ratio) == double",
        "object.spec.nothing == null && has(object.spec.nothing)",
        "object.spec.hosts == ['a', 'b'] && 'a' in object.spec.hosts",
        "has(object.metadata.labels.app) && !has(object.metadata.annotations)",
        "object.?metadata.?annotations.?a.orValue('none') == 'none'",
        "object.metadata['labels'].app == 'web' && object.metadata.labels['app'] == 'web'",
        "object.metadata.labels.all(key, object.metadata.labels[key] == 'web')",
        "object.metadata.name == object.metadata.labels.app",
        "oldObject == null && object != null && namespaceObject == null",
        "request.operation == 'CREATE' && request.kind.kind == 'Pod' && request.resource.resource == 'pods'",
        "request.userInfo.username == 'jane' && 'dev' in request.userInfo.groups",
        "request.userInfo.extra['scopes'] == ['b', 'a']",
        "!request.dryRun && request.options.kind == 'CreateOptions'",
        "!has(request.subResource) && request.namespace == 'default'",
    ],
)
def test_expressions_see_the_object_and_the_request(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("object.nonExistentProperty == 'someval'", "no such key: nonExistentProperty"),
        ("object.metadata.labels['zz'] == ''", "no such key: zz"),
        ("oldObject.kind == ''", "no such key: kind"),
        ("object.spec.hosts[2] == ''", "index out of bounds: 2"),
        ("object.spec.replicas + 'a' == 'b'", "no such overload"),
        ("object.spec.replicas / 0 == 1", "division by zero"),
        ("object.spec.replicas && true", "no such overload"),
        ("9223372036854775807 + object.spec.replicas == 0", "integer overflow"),
        ("request.subResource == ''", "no such key: subResource"),
        ("authorizer.path('/').check('get').allowed()", "no such attribute(s): authorizer"),
        ("object.metadata.name.matches(object.kind + '(')", "error parsing regexp: missing closing ): `Pod(`"),
    ],
)
def test_a_failed_evaluation_has_kube_apiservers_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert str(failed.value) == f"expression '{expression}' resulted in error: {cause}"


@pytest.mark.parametrize("hidden", ["uid", "object", "oldObject"])
def test_expressions_do_not_see_other_members_of_a_request(hidden: str) -> None:
    with pytest.raises(EvaluationError, match=f"no such key: {hidden}"):
        evaluate(f"dyn(request).{hidden} == ''")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (2**63, "integer out of range: 9223372036854775808"),
        (-(2**63) - 1, "integer out of range: -9223372036854775809"),
        (10**5_000, "integer out of range: more than 30 digits"),
    ],
    ids=["large", "small", "huge"],
)
def test_integers_outside_cels_range_are_errors(value: Any, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate("object.spec == 1", {"spec": value})

    assert failed.value.cause == cause


@pytest.mark.parametrize(
    ("expression", "value", "cause"),
    [
        ("object.spec == dyn(oldObject).spec", nested(100_000), "a value is nested deeper than 200 levels"),
        ("'%s'.format([object.spec]) == ''", nested(100_000), "a value is nested deeper than 200 levels"),
        ("object.spec.matches('a')", "\ud800", "a text is not valid UTF-8"),
    ],
)
def test_values_too_deep_or_without_utf8_are_errors(expression: str, value: Any, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression, {"spec": value}, old_object={"spec": value})

    assert failed.value.cause == cause


def test_invalid_values_that_no_expression_reads_are_harmless() -> None:
    assert evaluate("object.kind == 'Pod'", {"kind": "Pod", "spec": [2**70, nested(100_000), "\ud800"]})


@pytest.mark.parametrize("malformed", [None, 7, "text", [1], {"userInfo": 7, "resource": [], "groups": {}}])
def test_malformed_requests_bind(malformed: Any) -> None:
    request = (
        malformed if isinstance(malformed, dict) else {"userInfo": malformed, "resource": malformed, "kind": malformed}
    )

    assert evaluate("object.kind == 'Pod'", request=request)


NAMES = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(NAMES, values, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))
def test_reading_a_member_equals_reading_it_from_the_complete_object(value: dict[str, Any]) -> None:
    """An expression has the same result whether it reads a part of the object or all of it."""
    for expression in ("has(object.a)", "object.a == object.b", "object.?a.?b.hasValue()", "object.a.b == 1"):
        whole = f"object == object && ({expression})"

        assert outcome(expression, value) == outcome(whole, value)


def outcome(expression: str, value: dict[str, Any]) -> object:
    try:
        return compile_condition(expression).evaluate(Activation(object_=value, old_object=POD, request=REQUEST))
    except EvaluationError as error:
        return error.cause


def test_an_error_has_the_usage_until_then() -> None:
    with pytest.raises(EvaluationError) as failed:
        compile_condition("object.kind == 'Pod' && object.absent == 1").evaluate(bind())

    assert (
        str(failed.value)
        == "expression 'object.kind == 'Pod' && object.absent == 1' resulted in error: no such key: absent"
    )
    assert failed.value.cost == failed.value.used == 3 + 3


def test_a_long_string_increases_the_size_of_a_program() -> None:
    short, long = (compile_condition(f"object.a == '{text}'") for text in ("x", "x" * 5_000))

    assert (short.size, long.size) == (4, 4 + 10)
