"""Hook configurations: what tests/conformance/test_dispatch_configurations.py does not have."""

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dispatch.defaults import MUTATING, VALIDATING, set_defaults
from app.dispatch.validation.admission import validate_configuration
from app.dispatch.validation.configuration import configuration_problems
from app.dispatch.validation.warnings import configuration_warnings
from app.model.admission import AdmissionRequest, Response, StatusCause

GROUP: Final = "admissionregistration.k8s.io"
MISTYPED: Final = "Invalid value: must be "


def webhook(**members: Any) -> dict[str, Any]:
    given_members = {"name": "a.example.com", "clientConfig": {"url": "https://example.com"}, "sideEffects": "None"}
    return {**given_members, "admissionReviewVersions": ["v1"], **members}


def configuration(*webhooks: Any, kind: str = MUTATING, **metadata: Any) -> dict[str, Any]:
    document = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "config", **metadata}}
    return {**document, "webhooks": list(webhooks)}


def rule(**members: Any) -> dict[str, Any]:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    return {**everything, **members}


def compile_expression(expression: str) -> None:
    if expression != "true":
        raise ValueError("no such thing")


def found(document: Any, old: Any = None, kind: str = MUTATING) -> list[tuple[str, str]]:
    return [
        tuple(one) for one in configuration_problems(kind, document, old=old, compile_expression=compile_expression)
    ]


def reviewed(document: Any, old: Any = None, *, kind: str = MUTATING, **fields: Any) -> Response:
    request = {
        "uid": "u", "operation": "CREATE" if old is None else "UPDATE", "object": document, "oldObject": old,
        "kind": {"group": GROUP, "version": "v1", "kind": kind}, **fields,
    }  # fmt: skip
    decoded = msgspec.json.decode(json.dumps(request), type=AdmissionRequest)
    return validate_configuration(decoded, compile_expression=compile_expression)


def test_defaults_are_filled_in_and_what_is_there_stays() -> None:
    given_one = webhook(
        rules=[rule(), rule(scope="Cluster")], clientConfig={"service": {"name": "n"}}, timeoutSeconds=3
    )
    (filled,) = set_defaults(configuration(given_one, kind=MUTATING))["webhooks"]
    assert filled == {
        **given_one,
        "rules": [rule(scope="*"), rule(scope="Cluster")],
        "clientConfig": {"service": {"name": "n", "port": 443}},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 3,
    }


def test_only_mutating_hooks_have_a_reinvocation_policy() -> None:
    (validating,) = set_defaults(configuration(webhook(), kind=VALIDATING))["webhooks"]
    assert "reinvocationPolicy" not in validating
    assert found(configuration(webhook(reinvocationPolicy="x")), kind=VALIDATING) == []


def test_defaults_leave_their_argument_alone_and_null_is_absent() -> None:
    document = configuration(webhook(failurePolicy=None, rules=[rule(scope=None)]))
    before = json.dumps(document)
    (filled,) = set_defaults(document)["webhooks"]
    assert (filled["failurePolicy"], filled["rules"][0]["scope"], json.dumps(document)) == ("Fail", "*", before)


def test_hooks_share_no_default() -> None:
    one, other = set_defaults(configuration(webhook(), webhook()))["webhooks"]
    assert one["namespaceSelector"] is not other["namespaceSelector"]
    assert one["namespaceSelector"] is not one["objectSelector"]


def test_defaults_of_defaults_are_the_same() -> None:
    once = set_defaults(configuration(webhook(rules=[rule()])))
    assert set_defaults(once) == once


@pytest.mark.parametrize(
    ("members", "field", "expected"),
    [
        ({"name": 1}, "name", "a string"),
        ({"rules": {}}, "rules", "a list"),
        ({"rules": [1]}, "rules[0]", "an object"),
        ({"rules": [rule(operations="*")]}, "rules[0].operations", "a list"),
        ({"rules": [rule(operations=[{}])]}, "rules[0].operations[0]", "a string"),
        ({"rules": [rule(resources={"a": 1})]}, "rules[0].resources", "a list"),
        ({"rules": [rule(resources=[None])]}, "rules[0].resources[0]", "a string"),
        ({"rules": [rule(scope=1)]}, "rules[0].scope", "a string"),
        ({"failurePolicy": []}, "failurePolicy", "a string"),
        ({"sideEffects": 1}, "sideEffects", "a string"),
        ({"timeoutSeconds": 1.5}, "timeoutSeconds", "an integer"),
        ({"namespaceSelector": []}, "namespaceSelector", "an object"),
        ({"objectSelector": {"matchLabels": []}}, "objectSelector.matchLabels", "an object"),
        ({"objectSelector": {"matchLabels": {"a": 1}}}, "objectSelector.matchLabels", "an object of strings"),
        ({"objectSelector": {"matchExpressions": {}}}, "objectSelector.matchExpressions", "a list"),
        ({"objectSelector": {"matchExpressions": [1]}}, "objectSelector.matchExpressions[0]", "an object"),
        ({"clientConfig": []}, "clientConfig", "an object"),
        ({"clientConfig": {"url": 1}}, "clientConfig.url", "a string"),
        ({"clientConfig": {"url": "https://a", "caBundle": "*"}}, "clientConfig.caBundle", "bytes in base64"),
        ({"clientConfig": {"url": "https://a", "caBundle": 1}}, "clientConfig.caBundle", "bytes in base64"),
        ({"admissionReviewVersions": {}}, "admissionReviewVersions", "a list"),
        ({"matchConditions": {}}, "matchConditions", "a list"),
        ({"matchConditions": [1]}, "matchConditions[0]", "an object"),
        ({"matchConditions": [{"name": 1, "expression": "true"}]}, "matchConditions[0].name", "a string"),
        ({"matchConditions": [{"name": "a", "expression": 1}]}, "matchConditions[0].expression", "a string"),
    ],
)
def test_a_member_of_a_wrong_type_is_a_finding(members: dict[str, Any], field: str, expected: str) -> None:
    assert found(configuration(webhook(**members))) == [(f"webhooks[0].{field}", f"{MISTYPED}{expected}")]


def test_requirements_of_wrong_types_are_findings() -> None:
    requirement = {"key": 1, "operator": 2, "values": 3}
    place = "webhooks[0].objectSelector.matchExpressions[0]"
    assert found(configuration(webhook(objectSelector={"matchExpressions": [requirement]}))) == [
        (f"{place}.values", f"{MISTYPED}a list"),
        (f"{place}.operator", f"{MISTYPED}a string"),
        (f"{place}.key", f"{MISTYPED}a string"),
    ]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"metadata": []}, [("metadata", f"{MISTYPED}an object")]),
        ({"metadata": {"name": "a"}, "webhooks": {}}, [("webhooks", f"{MISTYPED}a list")]),
        ({"metadata": {"name": "a"}, "webhooks": [None]}, [("webhooks[0]", f"{MISTYPED}an object")]),
        ({"metadata": {"name": 1}}, [("metadata.name", f"{MISTYPED}a string")]),
        ({"metadata": {"name": "a", "annotations": []}}, [("metadata.annotations", f"{MISTYPED}an object")]),
        (
            {"metadata": {"name": "a", "annotations": {"b": 1}}},
            [("metadata.annotations", f"{MISTYPED}an object of strings")],
        ),
        ({}, [("metadata.name", "Required value: name or generateName is required")]),
    ],
)
def test_a_document_of_a_wrong_shape_is_a_finding(document: Any, expected: list[tuple[str, str]]) -> None:
    assert found(document) == expected


def test_a_name_that_is_yet_to_be_generated_is_not_missing() -> None:
    assert found({"metadata": {"generateName": "config-"}}) == []
    assert [field for field, _ in found({"metadata": {"generateName": "Config-"}})] == ["metadata.generateName"]


def test_annotations_have_a_size_together() -> None:
    limit = 256 * 1024
    assert found(configuration(annotations={"a": "x" * (limit - 1)})) == []
    expected = [("metadata.annotations", f"Too long: may not be more than {limit} bytes")]
    assert found(configuration(annotations={"a": "x" * (limit - 2), "b": "é"})) == expected


def test_expressions_are_compiled_without_the_space_around_them() -> None:
    conditions = [{"name": "a", "expression": " true\n"}, {"name": "b", "expression": " x "}]
    assert found(configuration(webhook(matchConditions=conditions))) == [
        ("webhooks[0].matchConditions[1].expression", 'Invalid value: "x": no such thing')
    ]


def test_an_expression_that_is_stored_may_move_to_another_hook() -> None:
    unknown = [{"name": "a", "expression": "x"}]
    old = configuration(webhook(matchConditions=unknown))
    new = configuration(webhook(), webhook(name="b.example.com", matchConditions=unknown))
    assert (len(found(new)), found(new, old)) == (1, [])


def test_a_review_is_judged_with_its_defaults() -> None:
    service = {"service": {"name": "n", "namespace": "ns"}}
    assert reviewed(configuration(webhook(clientConfig=service, rules=[rule()]))) == Response(allowed=True)


def test_a_refusal_names_every_finding_as_a_cause() -> None:
    response = reviewed(configuration(webhook(sideEffects=None, timeoutSeconds=31, failurePolicy="x"), webhook()))
    assert (response.allowed, response.code, response.reason) == (False, 422, "Invalid")
    assert [(cause.field, cause.reason) for cause in response.causes] == [
        ("webhooks[0].failurePolicy", "FieldValueNotSupported"),
        ("webhooks[0].sideEffects", "FieldValueRequired"),
        ("webhooks[0].timeoutSeconds", "FieldValueInvalid"),
        ("webhooks[1].name", "FieldValueDuplicate"),
    ]
    assert response.message == f"[{', '.join(f'{cause.field}: {cause.message}' for cause in response.causes)}]"


def test_one_finding_stands_without_brackets_and_twice_the_same_is_told_once() -> None:
    text = "webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"
    assert reviewed(configuration(webhook(timeoutSeconds=0))).message == text
    labels = {"a": "-", "b": "-"}
    response = reviewed(configuration(webhook(objectSelector={"matchLabels": labels})))
    assert len(response.causes) == 2
    assert response.message == f"{response.causes[0].field}: {response.causes[0].message}"


def test_an_update_is_judged_by_what_is_stored() -> None:
    odd = configuration(webhook(sideEffects="Unknown"))
    assert reviewed(odd, odd).allowed
    refused = reviewed(odd, configuration(webhook()))
    text = 'Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"'
    assert refused.causes == (StatusCause("webhooks[0].sideEffects", text, "FieldValueNotSupported"),)


def test_the_kind_of_the_review_counts() -> None:
    document = {**configuration(webhook(reinvocationPolicy="x")), "kind": "Other"}
    assert not reviewed(document, kind=MUTATING).allowed
    assert reviewed(document, kind=VALIDATING).allowed


def test_other_kinds_and_other_operations() -> None:
    bad = configuration(webhook(name=""))
    other = reviewed(bad, kind="ValidatingAdmissionPolicy")
    assert (other.code, other.message) == (
        400, f"expected a {MUTATING} or {VALIDATING} but got a ValidatingAdmissionPolicy"
    )  # fmt: skip
    assert reviewed(bad, kind=MUTATING, operation="DELETE").allowed
    assert reviewed(bad, kind=MUTATING, subResource="status").allowed
    assert reviewed([]).message == "request.object is not an object with metadata"
    assert reviewed(configuration(webhook(name=""), deletionTimestamp="2026-06-01T00:00:00Z")).allowed


@pytest.mark.parametrize(
    ("resources", "texts"),
    [
        (["a", "*"], ["if '*' is present, must not specify other resources without subresources"]),
        (["a/x", "a/*"], ["if 'a/*' is present, must not specify a/x"]),
        (["x/a", "*/a"], ["if '*/a' is present, must not specify x/a"]),
        (["a/*", "a"], []),
        (["*", "a/b"], []),
        (["a/*", "a/x"], []),
    ],
)
def test_resources_that_are_accepted_in_one_order_only_are_warned_of(resources: list[str], texts: list[str]) -> None:
    document = configuration(webhook(rules=[rule(resources=resources)]))
    field = "webhooks[0].rules[0].resources"
    assert list(configuration_warnings(document)) == [f"{field}: accepted in this order only: {text}" for text in texts]


def test_rules_for_what_no_webhook_is_called_for_are_warned_of() -> None:
    resources = ["validatingwebhookconfigurations", "mutatingadmissionpolicies/status", "*", "pods"]
    document = configuration(webhook(rules=[rule(apiGroups=["", GROUP], resources=resources)]))
    exempt = "of admissionregistration.k8s.io: webhooks are never called for what configures admission"
    field = "webhooks[0].rules[0].resources"
    assert [text for text in configuration_warnings(document) if "never called" in text] == [
        f'{field}: "{resource}" {exempt}' for resource in resources[:3]
    ]
    assert list(configuration_warnings(configuration(webhook(rules=[rule()])))) == []


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"apiGroups": ["core"]}, 'apiGroups: the rule never matches: no API group is spelled like this (the group of pods is "")'),
        ({"apiGroups": ["Apps"]}, "apiGroups: the rule never matches: no API group is spelled like this"),
        ({"apiVersions": ["apps/v1"]}, "apiVersions: the rule never matches: no API version is spelled like this"),
        ({"resources": ["Pods", "Pods/status"]}, "resources: the rule never matches: resources are plurals in lower case"),
    ],
)  # fmt: skip
def test_rules_that_never_match_are_warned_of(members: dict[str, list[str]], text: str) -> None:
    assert list(configuration_warnings(configuration(webhook(rules=[rule(**members)])))) == [
        f"webhooks[0].rules[0].{text}"
    ]
    mixed = {member: [*values, "*"] for member, values in members.items()}
    assert [
        one for one in configuration_warnings(configuration(webhook(rules=[rule(**mixed)]))) if "never matches" in one
    ] == []


def test_a_bundle_without_certificates_and_a_name_for_manifests_are_warned_of() -> None:
    response = reviewed(
        configuration(webhook(clientConfig={"url": "https://a", "caBundle": "Zm9v"}), name="a.static.k8s.io")
    )
    assert response.allowed
    reserved = (
        'metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and '
        "cannot be managed via the API"
    )
    unreadable = "Invalid value: unable to load root certificates: it is not PEM in base64"
    calls = f"webhooks[0].clientConfig.caBundle: every call will fail: {unreadable}"
    assert response.warnings == (reserved, calls)


def test_a_refusal_warns_as_well() -> None:
    response = reviewed(configuration(webhook(name="", rules=[rule(apiGroups=["core"])])))
    assert (response.allowed, len(response.warnings)) == (False, 1)


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


@given(document=documents, old=st.none() | documents, kind=st.sampled_from([MUTATING, VALIDATING]))
def test_any_json_is_judged_and_never_raises(document: Any, old: Any, kind: str) -> None:
    before = json.dumps(document)
    given_one, stored = set_defaults({**document, "kind": kind}), old and set_defaults({**old, "kind": kind})
    texts = found(given_one, stored, kind)
    assert all(field and text for field, text in texts)
    assert all(isinstance(text, str) for text in configuration_warnings(given_one))
    assert json.dumps(document) == before


@given(document=anything, old=anything)
def test_any_json_under_review_is_answered(document: Any, old: Any) -> None:
    response = reviewed(document, old)
    assert response.allowed == (not response.code)


def test_documents_as_deep_as_a_decoder_takes_them_are_answered() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"name": deep}
    twice = [webhook(name=deep, matchConditions=[deep], rules=[deep], admissionReviewVersions=[deep, deep]), webhook()]
    assert not reviewed(configuration(*twice), configuration(*twice)).allowed
