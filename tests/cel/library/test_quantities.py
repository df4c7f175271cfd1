"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    quantity('1') == quantity('1000m') && quantity('1Ki') == quantity('1024')
    isQuantity('1.3Gi') && isQuantity('0.5') && !isQuantity('1.3Zi') && !isQuantity('Three')
    quantity('1.5Gi').isGreaterThan(quantity('1Gi')) && quantity('1').isLessThan(quantity('2'))
    quantity('1').compareTo(quantity('2')) == -1 && quantity('1').compareTo(quantity('1')) == 0
    quantity('50k').asInteger() == 50000 && quantity('1.5').isInteger() == false && quantity('1k').isInteger()
    quantity('1500m').asApproximateFloat() == 1.5 && sign(quantity('-1')) == -1 && sign(quantity('0')) == 0
    quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('50k').sub(quantity('20k')) == quantity('30k')
    quantity('50k').add(20) == quantity('50020') && sign(quantity('1').sub(2)) == -1
    [quantity('1'), quantity('2')].exists(q, q.isGreaterThan(quantity('1')))
    dyn(quantity('1')).isLessThan(quantity('2'))
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_quantities_compare_by_amount(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        ("dyn(ip('::1')).asInteger() == 1", "no such overload: asInteger(net.IP)"),
        ("dyn([1]).startsWith('a')", "no such overload"),
        ("size(dyn(1)) == 1", "no such overload: size"),
    ],
)  # fmt: skip
def test_an_impossible_conversion_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause
