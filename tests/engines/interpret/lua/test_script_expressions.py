import pytest

from tests.engines.interpret.lua.machines import value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("9007199254740993 + 0", 9007199254740992),
        ("a.large", 9007199254740993),
        ("a.large .. ''", "9007199254740993"),
        ("a.large * 1", 9007199254740992),
        ("a.large - a.large", 0),
        ("a.largest + a.largest", 2.0**64),
        ("a.largest * a.largest / a.largest", 2**63 * 1.0),
        ("-a.least", 2.0**63),
        ("a.largest % 2", 0),
        ("require('kube').getResourceQuantity('16Gi') * 1000 * 1000 * 1000", 16 * 2.0**30 * 1e9),
        ("require('kube').getResourceQuantity('500m') * 2 .. '/' .. 4", "1/4"),
        ("require('kube').getResourceQuantity(nil)", 0),
    ],
)
def test_arithmetic_on_integers_of_documents_behaves_as_in_gopher_lua(expression: str, expected: object) -> None:
    found = value(expression, {"large": 2**53 + 1, "largest": 2**63 - 1, "least": -(2**63)})
    assert found == expected
    assert isinstance(found, type(expected))
