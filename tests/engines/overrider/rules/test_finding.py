"""Tests of a finding as entry points report it."""

import pytest

from fleethook.engines.overrider.rules.finding import ERRORS, Finding


def test_each_reason_is_a_cause_type_of_kubernetes() -> None:
    """Kubernetes 1.36: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go, ``CauseType``; the set has those that we use."""
    assert set(ERRORS.values()) <= {
        "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported", "FieldValueForbidden", "FieldValueDuplicate",
    }  # fmt: skip


@pytest.mark.parametrize(("code", "level"), [("invalid", "error"), ("unused-entry", "warning")])
def test_the_code_decides_the_level(code: str, level: str) -> None:
    assert Finding(code, "entries", "is wrong").level == level


def test_the_text_begins_with_the_path() -> None:
    assert Finding("invalid", "entries[0].pools", "is wrong").text == "entries[0].pools: is wrong"
    assert Finding("not-checked", "", "no NodePool is known").text == "no NodePool is known"


def test_a_cause_has_the_reason_of_its_code() -> None:
    cause = Finding("duplicate", "subject.name", "is taken").cause()
    assert (cause.field, cause.message, cause.reason) == ("subject.name", "is taken", "FieldValueDuplicate")
