"""The fake of OpenYurt's controller for v1beta1 writes the same as OpenYurt's own code (tests/conformance/openyurt)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.openyurt import REVISION_LABEL, NotAppliedError
from tests.e2e.openyurt_v1beta1 import V1Beta1

CASES = json.loads(gzip.decompress((Path(__file__).parent / "openyurt" / "v1beta1.json.gz").read_bytes()))["cases"]
LEFT_TO_THE_APISERVER = {
    "patch-add-unknown-field": "drops it",
    "patch-no-leading-slash": "drops the member that is written at the top",
    "patch-add-other-case": "takes no other case",
    "patch-add-quantity": "spells quantities in one way",
    "patch-add-quantity-number": "spells quantities in one way",
    "patch-add-wrong-type": "refuses it",
    "patch-replace-wrong-type": "refuses it",
    "patch-unknown-operation": "refuses the subject",
    "patch-replace-whole": "the fake's library applies it",
}
"""Cases that the fake passes on as they are: what the apiserver does with what it is sent."""
MODELLED = [case for case in CASES if not case.get("raw") and case["id"].partition("-")[2] not in LEFT_TO_THE_APISERVER]
POINTERS = {"replicas", "terminationGracePeriodSeconds", "revisionHistoryLimit"}
FORM = V1Beta1()


def node_pools(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in case["nodePools"]}


def without_zeros(document: Any) -> Any:
    """Drop members that a typed client may leave out: null, empty ones and zeros, but not zeros with a meaning."""
    if isinstance(document, dict):
        members = {name: without_zeros(value) for name, value in document.items()}
        return {name: value for name, value in members.items() if value or (name in POINTERS and value is not None)}
    if isinstance(document, list):
        return [without_zeros(one) for one in document]
    return document


def comparable(workload: dict[str, Any], revision: str) -> Any:
    """Drop the status and replace the revision, which the fake computes differently."""
    made = {name: value for name, value in workload.items() if name not in ("status", "apiVersion", "kind")}
    for metadata in (made["metadata"], made["spec"]["template"]["metadata"]):
        assert metadata["labels"][REVISION_LABEL] == revision
        metadata["labels"][REVISION_LABEL] = "same"
    return without_zeros(made)


def test_all_cases_are_loaded() -> None:
    assert len(MODELLED) > 500
    assert len({case["id"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", MODELLED, ids=lambda case: case["id"])
def test_the_workload_is_the_one_that_openyurt_writes(case: dict[str, Any]) -> None:
    arguments = (case["subject"], case["pool"], case["existing"])
    if "error" in case:
        with pytest.raises(NotAppliedError):
            FORM.apply(*arguments, node_pools=node_pools(case))
        return
    made = FORM.apply(*arguments, node_pools=node_pools(case))
    assert comparable(made, FORM.revision(case["subject"])) == comparable(case["workload"], case["revision"])


@pytest.mark.parametrize("case", MODELLED, ids=lambda case: case["id"])
def test_the_pools_are_those_that_openyurt_finds(case: dict[str, Any]) -> None:
    if "poolError" in case:
        with pytest.raises(NotAppliedError):
            FORM.pools(case["subject"], node_pools(case))
        return
    assert sorted(FORM.pools(case["subject"], node_pools(case))) == case["pools"]
