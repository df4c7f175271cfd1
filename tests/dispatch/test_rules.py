"""Rules match requests by each of their fields."""

from typing import Any

from hypothesis import given, settings

from app.dispatch.hooks import compile_hooks
from app.dispatch.rules import compare_fields, matches_rule
from tests.dispatch.builders import configuration
from tests.dispatch.worlds import asked, hooks


@settings(max_examples=300, deadline=None)
@given(hooks("c"), asked)
def test_a_rule_matches_if_each_field_matches(made: Any, request: Any) -> None:
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", made))
    for rule in hook.rules:
        assert matches_rule(rule, request) is all(axis.ok for axis in compare_fields(rule, request))
