"""Validation of hook configurations with the cases of kube-apiserver; `DIFFERENCES` has the documented ones."""

from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.program import compile_condition
from fleethook.engines.dispatch.lint.configuration_validation import configuration_problems
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MUTATING, VALIDATING, set_defaults

_DATA: Final = yaml.safe_load((Path(__file__).parent / "dispatch_configurations.yaml").read_text())
_TEXTS: Final = {
    expression: f'Invalid value: "{expression}": {text}' for expression, text in _DATA["expressions"].items()
}
# Cases with a stored configuration are updates, which may keep its errors.
CASES: Final = [
    (kind, case)
    for case in _DATA["cases"]
    for kind in case.get("kinds", (MUTATING.kind, VALIDATING.kind))
    if "old" not in case
]

_NO_NAME: Final = ["webhooks[0].clientConfig.service.name", "Required value"]
_NO_NAMESPACE: Final = ["webhooks[0].clientConfig.service.namespace", "Required value"]

DIFFERENCES: Final[dict[str, tuple[list[list[str]], list[list[str]]]]] = {
    # Upstream swaps the two arguments, so each finding names the other field.
    "a service without a name": ([_NO_NAMESPACE], [_NO_NAME]),
    "a service without a namespace": ([_NO_NAME], [_NO_NAMESPACE]),
}
"""By the name of a case: upstream's findings, and ours."""


def configuration(kind: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "config"}, "webhooks": [expand(webhook) for webhook in webhooks]}


def expand(webhook: dict[str, Any]) -> dict[str, Any]:
    conditions = webhook.get("matchConditions")
    if not isinstance(conditions, dict):
        return webhook
    names = [f"{conditions['name']}{number}" for number in range(conditions["count"])]
    return {**webhook, "matchConditions": [{"name": name, "expression": conditions["expression"]} for name in names]}


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{case['id']}-{kind[:3].lower()}" for kind, case in CASES])
def test_configurations_are_judged_as_by_an_apiserver(kind: str, case: dict[str, Any]) -> None:
    given = set_defaults(configuration(kind, case["webhooks"]))
    theirs, ours = DIFFERENCES.get(case["name"], ([], []))
    assert all(problem in case["problems"] for problem in theirs)
    expected = [*ours, *(problem for problem in case["problems"] if problem not in theirs)]
    for found, (field, text) in zip_longest(configuration_problems(kind, given), expected, fillvalue=("", "nothing")):
        # An apiserver may add: "must evaluate to bool but got int".
        assert (found[0], text.startswith(found[1])) == (field, True), (found, text)


def test_every_case_is_one_of_its_own() -> None:
    names = [case["id"] for case in _DATA["cases"]]
    assert len(names) == len(set(names)) == 172


@pytest.mark.parametrize(("expression", "text"), _DATA["expressions"].items())
def test_the_compilers_messages_equal_those_of_the_cases(expression: str, text: str | None) -> None:
    if text is None:
        compile_condition(expression)
        return
    with pytest.raises(ExpressionError) as caught:
        compile_condition(expression)
    # An apiserver may add: "must evaluate to bool but got int".
    assert text.startswith(str(caught.value))
