"""Tests of the table of codes for overriders."""

from app.overrider.lint_codes import ERROR_MEANINGS, ERRORS, WARNINGS


def test_no_code_is_an_error_and_a_warning() -> None:
    assert ERRORS.keys().isdisjoint(WARNINGS)


def test_each_error_has_a_meaning() -> None:
    assert ERROR_MEANINGS.keys() == ERRORS.keys()


def test_each_reason_is_a_cause_type_of_kubernetes() -> None:
    """Kubernetes 1.36: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go, ``CauseType``; the set has those that we use."""
    assert set(ERRORS.values()) <= {
        "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported", "FieldValueForbidden", "FieldValueDuplicate",
    }  # fmt: skip
