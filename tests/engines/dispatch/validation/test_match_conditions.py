"""Expressions are compiled unless they are stored."""

from tests.engines.dispatch.validation.builders import configuration, find_errors, webhook


def test_expressions_are_stripped_before_compiling() -> None:
    conditions = [{"name": "a", "expression": " true\n"}, {"name": "b", "expression": " x "}]
    assert find_errors(configuration(webhook(matchConditions=conditions))) == [
        ("webhooks[0].matchConditions[1].expression", 'Invalid value: "x": no such thing')
    ]


def test_stored_expressions_may_move_to_another_webhook() -> None:
    unknown = [{"name": "a", "expression": "x"}]
    old = configuration(webhook(matchConditions=unknown))
    new = configuration(webhook(), webhook(name="b.example.com", matchConditions=unknown))
    assert (len(find_errors(new)), find_errors(new, old)) == (1, [])
