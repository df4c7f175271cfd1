"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    !format.dns1123Label().validate('my-label-name').hasValue()
    format.dns1123Label().validate('contains a space').hasValue()
    format.dns1123Label().validate('x'.replace('x', '%s%s%s%s%s%s%s'.format(['aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaa']))).value() == ['must be no more than 63 characters']
    !format.dns1123Subdomain().validate('apiextensions.k8s.io').hasValue()
    !format.dns1035Label().validate('a1').hasValue() && format.dns1035Label().validate('1a').hasValue()
    !format.qualifiedName().validate('apiextensions.k8s.io/v1beta1').hasValue()
    format.qualifiedName().validate('/a').hasValue()
    !format.dns1123LabelPrefix().validate('my-label-prefix-').hasValue()
    format.dns1123Label().validate('my-label-prefix-').hasValue()
    !format.dns1123SubdomainPrefix().validate('mysubdomain.prefix-').hasValue()
    !format.labelValue().validate('').hasValue() && format.labelValue().validate('-').hasValue()
    !format.uri().validate('http://example.com').hasValue() && format.uri().validate('a').hasValue()
    !format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()
    format.uuid().validate('123').value() == ['does not match the UUID format']
    !format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('%').value() == ['invalid base64']
    !format.date().validate('2021-01-01').hasValue() && format.date().validate('2021-02-30').hasValue()
    !format.datetime().validate('2021-01-01T00:00:00Z').hasValue()
    format.datetime().validate('2021-01-01').value() == ['invalid datetime']
    format.named('dns1123Label').value() == format.dns1123Label()
    format.named('dns1123Label').hasValue() && !format.named('').hasValue() && !format.named('x').hasValue()
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_formats_validate_strings(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("format.named('x').value().validate('a').hasValue()", "optional.none() dereference"),
    ],
)  # fmt: skip
def test_an_unknown_format_has_no_value(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause
