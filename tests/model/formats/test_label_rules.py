"""Label selectors of any type are validated."""

from tests.engines.dispatch.validation.builders import MISTYPED, configuration, find_errors, webhook


def test_requirements_of_wrong_types_are_errors() -> None:
    requirement = {"key": 1, "operator": 2, "values": 3}
    place = "webhooks[0].objectSelector.matchExpressions[0]"
    assert find_errors(configuration(webhook(objectSelector={"matchExpressions": [requirement]}))) == [
        (f"{place}.values", f"{MISTYPED}a list"),
        (f"{place}.operator", f"{MISTYPED}a string"),
        (f"{place}.key", f"{MISTYPED}a string"),
    ]
