import pytest

from fleethook.cel import EvaluationError, compile_condition
from tests.cel.evaluating import bind, evaluate


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
