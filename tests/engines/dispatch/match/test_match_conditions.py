"""matchConditions beyond the cases of tests/conformance/dispatch_conditions.yaml."""

from fleethook.engines.dispatch.match.match_conditions import is_short


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
