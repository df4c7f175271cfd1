from pathlib import Path
from typing import Any

import pytest
import yaml

from app.control.conditions import Condition
from app.crds.controller.lifecycle import cascades, released, to_look_at
from app.crds.controller.outcome import asking, failed, leaving, prepared
from app.crds.failures import CRDsError, Exit
from app.crds.fetch import Fetched

CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("crds_controller.yaml").read_text())
FETCHED = Fetched("downloaded", "key", Path("/c"), "ab" * 32, 90, "https://m/c", "https://m/c", "", 1, 0.1, 0.0, ())
SAID: dict[str, Condition] = {
    "asking": asking("https://m/c")[0],
    "leaving": leaving(),
    "prepared": prepared(FETCHED).ready,
    "failed": failed(CRDsError(Exit.HTTP, "https://m/c: 404 Not Found")).ready,
}


@pytest.mark.parametrize("case", CASES["said"], ids=lambda case: case["id"])
def test_conditions_and_events(case: dict[str, Any]) -> None:
    said = SAID[case["outcome"]]._asdict()
    assert {name: said[name] for name in case["condition"]} == case["condition"]
    assert said["message"].startswith(case.get("starts", ""))


@pytest.mark.parametrize("case", CASES["looked_at"], ids=lambda case: case["id"])
def test_events_that_start_a_reconciliation(case: dict[str, Any]) -> None:
    assert to_look_at(case["before"], case["after"]) is case["wanted"]


@pytest.mark.parametrize("case", CASES["deinit"], ids=lambda case: case["id"])
def test_whether_there_is_a_deinit_job(case: dict[str, Any]) -> None:
    karmada = {"metadata": {"labels": case["labels"], "finalizers": ["operator.karmada.io/finalizer"]}}
    assert cascades(karmada) is case["wanted"]
    # The finalizer is removed in both cases.
    assert released(karmada) == {"metadata": {"finalizers": []}}
