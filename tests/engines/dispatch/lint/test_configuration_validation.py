"""Configurations of any shape are validated, beyond the cases of tests/conformance/test_dispatch_configurations.py."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.dispatch.lint.rule_and_binding_checks import configuration_warnings
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MUTATING, VALIDATING, set_defaults
from tests.engines.dispatch.lint.configuration_builders import find_errors, valid_webhook, webhook_configuration


def test_expressions_are_stripped_before_compiling() -> None:
    conditions = [{"name": "a", "expression": " true\n"}, {"name": "b", "expression": " x "}]
    ((field, text),) = find_errors(webhook_configuration(valid_webhook(matchConditions=conditions)))
    assert field == "webhooks[0].matchConditions[1].expression"
    assert text.startswith('Invalid value: "x": ')


def test_a_bundle_is_bytes_in_base64() -> None:
    config = {"url": "https://a", "caBundle": "%%"}
    ((field, text),) = find_errors(webhook_configuration(valid_webhook(clientConfig=config)))
    assert (field, text) == ("webhooks[0].clientConfig.caBundle", "Invalid value: must be bytes in base64")


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)


words = st.sampled_from(["*", "*/*", "a/*", "a", "", "v1", "None", "In", "https://a", "true", "Zm9v", "a.b.c", "Fail"])


members_known = st.sampled_from([
    "metadata", "name", "generateName", "labels", "annotations", "webhooks", "rules", "operations", "apiGroups", "apiVersions",
    "resources", "scope", "failurePolicy", "sideEffects", "timeoutSeconds", "namespaceSelector", "matchLabels", "matchExpressions",
    "key", "operator", "values", "clientConfig", "url", "service", "path", "port", "caBundle", "admissionReviewVersions",
    "matchConditions", "expression",
])  # fmt: skip


anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members_known, inner, max_size=6),
    max_leaves=30,
)


webhooks_bent = st.lists(st.dictionaries(members_known, anything, max_size=8) | anything, max_size=3)


documents = st.fixed_dictionaries({}, optional={"metadata": anything, "webhooks": webhooks_bent | anything})


@given(document=documents, kind=st.sampled_from([MUTATING.kind, VALIDATING.kind]))
def test_any_json_is_validated_without_raising(document: Any, kind: str) -> None:
    before = json.dumps(document)
    given_one = set_defaults({**document, "kind": kind})
    texts = find_errors(given_one, kind)
    assert all(field and text for field, text in texts)
    assert all(isinstance(text, str) for text in configuration_warnings(given_one))
    assert json.dumps(document) == before


def test_deeply_nested_documents_have_errors() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"name": deep}
    twice = [
        valid_webhook(name=deep, matchConditions=[deep], rules=[deep], admissionReviewVersions=[deep, deep]),
        valid_webhook(),
    ]
    assert find_errors(webhook_configuration(*twice))
