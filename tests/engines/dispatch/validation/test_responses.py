"""Reviews of configurations: defaults, causes, warnings, operations."""

from fleethook.engines.dispatch.hooks.hook_defaults import MUTATING, VALIDATING
from fleethook.model.admission import Response, StatusCause
from tests.engines.dispatch.validation.builders import configuration, review_configuration, rule, webhook


def test_reviews_validate_the_defaulted_configuration() -> None:
    service = {"service": {"name": "n", "namespace": "ns"}}
    assert review_configuration(configuration(webhook(clientConfig=service, rules=[rule()]))) == Response(allowed=True)


def test_each_error_is_a_cause_of_the_refusal() -> None:
    response = review_configuration(
        configuration(webhook(sideEffects=None, timeoutSeconds=31, failurePolicy="x"), webhook())
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
    assert review_configuration(configuration(webhook(timeoutSeconds=0))).message == text
    labels = {"a": "-", "b": "-"}
    response = review_configuration(configuration(webhook(objectSelector={"matchLabels": labels})))
    assert len(response.causes) == 2
    assert response.message == f"{response.causes[0].field}: {response.causes[0].message}"


def test_updates_may_keep_stored_errors() -> None:
    odd = configuration(webhook(sideEffects="Unknown"))
    assert review_configuration(odd, odd).allowed
    refused = review_configuration(odd, configuration(webhook()))
    text = 'Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"'
    assert refused.causes == (StatusCause("webhooks[0].sideEffects", text, "FieldValueNotSupported"),)


def test_the_kind_of_the_review_selects_the_rules() -> None:
    document = {**configuration(webhook(reinvocationPolicy="x")), "kind": "Other"}
    assert not review_configuration(document, kind=MUTATING).allowed
    assert review_configuration(document, kind=VALIDATING).allowed


def test_other_kinds_are_refused_and_other_operations_are_allowed() -> None:
    bad = configuration(webhook(name=""))
    other = review_configuration(bad, kind="ValidatingAdmissionPolicy")
    assert (other.code, other.message) == (
        400, f"expected a {MUTATING} or {VALIDATING} but got a ValidatingAdmissionPolicy"
    )  # fmt: skip
    assert review_configuration(bad, kind=MUTATING, operation="DELETE").allowed
    assert review_configuration(bad, kind=MUTATING, subResource="status").allowed
    assert review_configuration([]).message == "request.object is not an object with metadata"
    assert review_configuration(configuration(webhook(name=""), deletionTimestamp="2026-06-01T00:00:00Z")).allowed


def test_refusals_have_warnings() -> None:
    response = review_configuration(configuration(webhook(name="", rules=[rule(apiGroups=["core"])])))
    assert (response.allowed, len(response.warnings)) == (False, 1)
