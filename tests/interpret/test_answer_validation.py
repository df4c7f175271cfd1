"""Answers that fleethook refuses; tests/conformance and test_webhook_layer.py have further cases."""

from app.interpret.answer_validation import dependency_problems


def test_path_of_a_label_selector_has_dots() -> None:
    dependency = {"apiVersion": "v1", "kind": "Pod", "labelSelector": {"matchLabels": {"a": "-"}}}
    (problem,) = dependency_problems([dependency])
    assert problem.startswith("dependencies[0].labelSelector.matchLabels: ")
