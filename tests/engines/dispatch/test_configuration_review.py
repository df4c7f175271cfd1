"""Large configurations get the same answers as small ones, without blocking other requests."""

from functools import partial
from typing import Any

import pytest

from fleethook.cel import compile_condition
from fleethook.engines.dispatch.configuration_review import (
    ConfigurationValidator,
    configuration_warnings,
    validate_configuration,
)
from fleethook.engines.dispatch.hooks.hooks import MUTATING, VALIDATING
from fleethook.engines.dispatch.match.match_conditions import Compiler
from fleethook.model.admission import Response, StatusCause
from fleethook.work.turns import Turns, Worker
from tests.engines.dispatch.builders import configuration, request_of, review, webhook
from tests.engines.dispatch.configuration_builders import (
    GROUP,
    review_configuration,
    rule,
    valid_webhook,
    webhook_configuration,
)

LONG = " || ".join(f"object.name == 'x{number}'" for number in range(100))


def build_request(*hooks: dict[str, Any], old: Any = None) -> Any:
    document = configuration("ws2", "validating", *hooks)
    kind = {"group": "admissionregistration.k8s.io", "version": "v1", "kind": document["kind"]}
    return request_of(review(document, old=old, operation="UPDATE" if old else "CREATE", kind=kind))


def condition(expression: Any) -> dict[str, Any]:
    return {"matchConditions": [{"name": "c", "expression": expression}]}


MANY = [webhook(f"w{number}.example.org", **condition(f"object.x{number}")) for number in range(100)]
BROKEN = webhook("b.example.org", **condition(f"({LONG}"))


@pytest.mark.parametrize(
    "request_",
    [
        build_request(webhook(**condition("object.a == 1"))),
        build_request(webhook(**condition(" object.a == "))),
        build_request(webhook(**condition(7)), webhook(matchConditions="none"), webhook(**condition(LONG))),
        build_request(BROKEN),
        build_request(BROKEN, old=configuration("ws2", "validating", BROKEN)),
        build_request(*MANY, BROKEN),
        build_request(),
    ],
    ids=["right", "wrong", "no text", "long", "stored", "many", "none"],
)
async def test_the_response_equals_that_of_validate_configuration(request_: Any) -> None:
    worker = Worker()
    reviews = ConfigurationValidator(Compiler(worker), worker=worker, turns=Turns())
    at_once = partial(validate_configuration, compile_expression=compile_condition)
    assert await reviews.review(request_) == at_once(request_)


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
def test_order_dependent_resources_are_warnings(resources: list[str], texts: list[str]) -> None:
    document = webhook_configuration(valid_webhook(rules=[rule(resources=resources)]))
    field = "webhooks[0].rules[0].resources"
    assert list(configuration_warnings(document)) == [f"{field}: accepted in this order only: {text}" for text in texts]


def test_rules_for_exempt_kinds_are_warnings() -> None:
    resources = ["validatingwebhookconfigurations", "mutatingadmissionpolicies/status", "*", "pods"]
    document = webhook_configuration(valid_webhook(rules=[rule(apiGroups=["", GROUP], resources=resources)]))
    exempt = "of admissionregistration.k8s.io: webhooks are never called for configurations of admission"
    field = "webhooks[0].rules[0].resources"
    assert [text for text in configuration_warnings(document) if "never called" in text] == [
        f'{field}: "{resource}" {exempt}' for resource in resources[:3]
    ]
    assert list(configuration_warnings(webhook_configuration(valid_webhook(rules=[rule()])))) == []


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"apiGroups": ["core"]}, 'apiGroups: the rule never matches: no API group is spelled like this (the group of pods is "")'),
        ({"apiGroups": ["Apps"]}, "apiGroups: the rule never matches: no API group is spelled like this"),
        ({"apiVersions": ["apps/v1"]}, "apiVersions: the rule never matches: no API version is spelled like this"),
        ({"resources": ["Pods", "Pods/status"]}, "resources: the rule never matches: resources are plurals in lower case"),
    ],
)  # fmt: skip
def test_rules_that_never_match_are_warnings(members: dict[str, list[str]], text: str) -> None:
    assert list(configuration_warnings(webhook_configuration(valid_webhook(rules=[rule(**members)])))) == [
        f"webhooks[0].rules[0].{text}"
    ]
    mixed = {member: [*values, "*"] for member, values in members.items()}
    assert [
        one
        for one in configuration_warnings(webhook_configuration(valid_webhook(rules=[rule(**mixed)])))
        if "never matches" in one
    ] == []


def test_invalid_bundles_and_reserved_names_are_warnings() -> None:
    response = review_configuration(
        webhook_configuration(
            valid_webhook(clientConfig={"url": "https://a", "caBundle": "Zm9v"}), name="a.static.k8s.io"
        )
    )
    assert response.allowed
    reserved = (
        'metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and '
        "cannot be managed via the API"
    )
    unreadable = "Invalid value: unable to load root certificates: unable to parse bytes as PEM block"
    calls = f"webhooks[0].clientConfig.caBundle: every call will fail: {unreadable}"
    assert response.warnings == (reserved, calls)


def test_reviews_validate_the_defaulted_configuration() -> None:
    service = {"service": {"name": "n", "namespace": "ns"}}
    assert review_configuration(webhook_configuration(valid_webhook(clientConfig=service, rules=[rule()]))) == Response(
        allowed=True
    )


def test_each_error_is_a_cause_of_the_refusal() -> None:
    response = review_configuration(
        webhook_configuration(valid_webhook(sideEffects=None, timeoutSeconds=31, failurePolicy="x"), valid_webhook())
    )
    assert (response.allowed, response.code, response.reason) == (False, 422, "Invalid")
    assert [(cause.field, cause.reason) for cause in response.causes] == [
        ("webhooks[0].failurePolicy", "FieldValueNotSupported"),
        ("webhooks[0].sideEffects", "FieldValueRequired"),
        ("webhooks[0].timeoutSeconds", "FieldValueInvalid"),
        ("webhooks[1].name", "FieldValueDuplicate"),
    ]
    assert response.message == f"[{', '.join(f'{cause.field}: {cause.message}' for cause in response.causes)}]"


def test_a_single_error_has_no_brackets_and_duplicates_are_merged() -> None:
    text = "webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"
    assert review_configuration(webhook_configuration(valid_webhook(timeoutSeconds=0))).message == text
    labels = {"a": "-", "b": "-"}
    response = review_configuration(webhook_configuration(valid_webhook(objectSelector={"matchLabels": labels})))
    assert len(response.causes) == 2
    assert response.message == f"{response.causes[0].field}: {response.causes[0].message}"


def test_updates_may_keep_stored_errors() -> None:
    odd = webhook_configuration(valid_webhook(sideEffects="Unknown"))
    assert review_configuration(odd, odd).allowed
    refused = review_configuration(odd, webhook_configuration(valid_webhook()))
    text = 'Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"'
    assert refused.causes == (StatusCause("webhooks[0].sideEffects", text, "FieldValueNotSupported"),)


def test_the_kind_of_the_review_selects_the_rules() -> None:
    document = {**webhook_configuration(valid_webhook(reinvocationPolicy="x")), "kind": "Other"}
    assert not review_configuration(document, kind=MUTATING.kind).allowed
    assert review_configuration(document, kind=VALIDATING.kind).allowed


def test_other_kinds_are_refused_and_other_operations_are_allowed() -> None:
    bad = webhook_configuration(valid_webhook(name=""))
    other = review_configuration(bad, kind="ValidatingAdmissionPolicy")
    assert (other.code, other.message) == (
        400, f"expected a {MUTATING.kind} or {VALIDATING.kind} but got a ValidatingAdmissionPolicy"
    )  # fmt: skip
    assert review_configuration(bad, kind=MUTATING.kind, operation="DELETE").allowed
    assert review_configuration(bad, kind=MUTATING.kind, subResource="status").allowed
    assert review_configuration([]).message == "request.object is not an object with metadata"
    assert review_configuration(
        webhook_configuration(valid_webhook(name=""), deletionTimestamp="2026-06-01T00:00:00Z")
    ).allowed


def test_refusals_have_warnings() -> None:
    response = review_configuration(webhook_configuration(valid_webhook(name="", rules=[rule(apiGroups=["core"])])))
    assert (response.allowed, len(response.warnings)) == (False, 1)
