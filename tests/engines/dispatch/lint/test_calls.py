"""A webhook that excludes its own objects is not locked out."""

from tests.engines.dispatch.lint.builders import list_codes, own, validating


def test_object_selectors_and_conditions_count_as_exclusions() -> None:
    labelled = own(objectSelector={"matchExpressions": [{"key": "hook", "operator": "DoesNotExist"}]})
    conditional = own(
        matchConditions=[{"name": "a", "expression": "object == null || object.metadata.labels.hook != 'no'"}]
    )
    assert list_codes(validating(labelled, cluster="")) == list_codes(validating(conditional, cluster="")) == []
