"""Conditions and events of an instance after its CRDs were applied, or were not."""

from typing import Any

import pytest

from app.control.conditions import Condition
from app.crds.apply.apply import Applied
from app.crds.apply.plan import StoredVersionsError
from app.crds.controller.apply_outcome import APPLIED, find_stored_outcome, report_applied, report_not_applied
from app.crds.failures import CRDsError, Exit

CRDS = [Applied("a", "created", patched=False), Applied("b", "unchanged", patched=True)]
PREPARED_READY = Condition("Ready", "True", "Completed", "done")


def test_success_names_the_tarball_and_leaves_ready_alone() -> None:
    found = report_applied("ab", CRDS)
    assert found.finding == (APPLIED, "True", "Applied", "sha256:ab: 2 CRDs (1 created, 1 unchanged)")
    assert found.succeeded
    assert found.retry == "never"
    assert found.derive_ready(PREPARED_READY) == PREPARED_READY


@pytest.mark.parametrize(
    ("error", "reason", "retry"),
    [
        (CRDsError(Exit.USAGE, "x", transient=True), "AccessInvalid", "soon"),
        (CRDsError(Exit.USAGE, "x"), "AccessInvalid", "slowly"),
        (CRDsError(Exit.NETWORK, "x", transient=True), "Unreachable", "soon"),
        (CRDsError(Exit.HTTP, "x"), "Refused", "slowly"),
        (StoredVersionsError({"a": ["v1"]}, "x"), "StoredVersionsKept", "slowly"),
        (CRDsError(Exit.ARCHIVE, "x"), "InvalidArchive", "slowly"),
        (CRDsError(Exit.NOT_CACHED, "x", transient=True), "ApplyFailed", "soon"),
    ],
)
def test_each_failure_has_a_reason_and_a_pace(error: CRDsError, reason: str, retry: str) -> None:
    found = report_not_applied(error)
    assert found.finding == (APPLIED, "False", reason, str(error))
    assert found.event[:2] == ("Warning", f"CRDs{reason}")
    assert found.retry == retry
    assert found.derive_ready(PREPARED_READY) == ("Ready", "False", "Failed", str(error))


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({}, True),
        ({"status": "False"}, False),
        ({"observedGeneration": 2}, False),
        ({"message": "sha256:abc: 2 CRDs"}, False),
        ({"message": None}, False),
        ({"type": "CRDsPrepared"}, False),
    ],
)
def test_a_success_is_known_by_tarball_and_generation(change: dict[str, Any], known: bool) -> None:
    text = report_applied("ab", CRDS).finding.message
    stored = {"type": APPLIED, "status": "True", "reason": "Applied", "message": text, "observedGeneration": 3}
    found = find_stored_outcome([{"type": "Ready"}, {**stored, **change}], "ab", 3)
    assert (found is not None) is known
    if found is not None:
        assert found.finding == report_applied("ab", CRDS).finding
