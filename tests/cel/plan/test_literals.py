import pytest

from fleethook.cel import EvaluationError, compile_condition
from tests.cel.evaluating import bind, evaluate


@pytest.mark.parametrize(
    "expression",
    [
        "[object.kind, dyn(1)] == [dyn('Pod'), dyn(1)] && {object.kind: 1} == {'Pod': 1} && {true: 'b'}[true] == 'b'",
        "[?object.?absent, dyn(1)] == [1] && [?object.?kind] == ['Pod']",
        "{?'a': object.?absent, 'b': dyn(1)} == {'b': 1} && {?'a': object.?kind} == {'a': 'Pod'}",
    ],
)
def test_literals_have_their_elements(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("[object.absent] == []", "no such key: absent"),
        ("{'a': object.absent} == {}", "no such key: absent"),
    ],
)
def test_an_invalid_element_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


@pytest.mark.parametrize(
    ("expression", "cost"),
    # A list costs 10 and a map 30, object.kind costs 2. Comparing with an empty value and constant literals are free.
    [("[object.kind] != []", 12), ("{'a': object.kind} != {}", 32), ("[1, 2] != []", 0), ("{'a': 1} != {}", 0)],
)
def test_a_literal_costs_its_constructor(expression: str, cost: int) -> None:
    assert compile_condition(expression).measure(bind()).cost == cost


def test_a_key_without_a_hash_equals_only_itself() -> None:
    """kube-apiserver accepts such maps, too: Go compares the pointers."""
    assert evaluate("{object.spec.hosts: 1} != {object.spec.hosts: 1} && {[1]: 2}.map(k, k) == [[1]]")


@pytest.mark.parametrize(
    "expression",
    [
        "google.protobuf.Int64Value{value: 1} == 1 && google.protobuf.BoolValue{} == false",
        "google.protobuf.Timestamp{seconds: 5, nanos: 1} > timestamp(5)",
        "google.protobuf.Duration{seconds: 5} == duration('5s')",
        "google.protobuf.Struct{fields: {'a': dyn(1)}} == {'a': 1} && google.protobuf.ListValue{} == []",
        "google.protobuf.Value{string_value: 'a'} == 'a' && google.protobuf.Value{null_value: 0} == null",
    ],
)
def test_well_known_types_are_plain_values(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("kubernetes.AdmissionRequest{}.name == ''", "unknown type 'kubernetes.AdmissionRequest'"),
        ("google.protobuf.Int32Value{value: 2147483648} == 0", "integer overflow"),
        ("google.protobuf.StringValue{value: string(object.absent)} == ''", "no such key: absent"),
    ],
)
def test_other_messages_are_errors(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)
    assert failed.value.cause == cause


def test_a_message_costs_its_constructor() -> None:
    assert compile_condition("google.protobuf.BoolValue{value: true}").measure(bind()).cost == 40
