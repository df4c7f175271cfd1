from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.conditions_and_events import Condition
from fleethook.engines.crds.cache_or_download import Fetched
from fleethook.engines.crds.controller.instance_conditions_and_events import (
    report_deletion,
    report_download,
    report_failed,
    report_prepared,
)
from fleethook.engines.crds.instance.defaults_and_lifecycle import (
    build_release_patch,
    cascades_deletion,
    needs_reconcile,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit

CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("crds_controller.yaml").read_text())
FETCHED = Fetched("downloaded", "key", Path("/c"), "ab" * 32, 90, "https://m/c", "https://m/c", "", 1, 0.1, ())
SAID: dict[str, Condition] = {
    "asking": report_download("https://m/c")[0],
    "leaving": report_deletion(),
    "prepared": report_prepared(FETCHED).ready,
    "failed": report_failed(CRDsError(Exit.HTTP, "https://m/c: 404 Not Found")).ready,
}


@pytest.mark.parametrize("case", CASES["said"], ids=lambda case: case["id"])
def test_conditions_and_events(case: dict[str, Any]) -> None:
    said = SAID[case["outcome"]]._asdict()
    assert {name: said[name] for name in case["condition"]} == case["condition"]
    assert said["message"].startswith(case.get("starts", ""))


@pytest.mark.parametrize("case", CASES["looked_at"], ids=lambda case: case["id"])
def test_events_that_start_a_reconciliation(case: dict[str, Any]) -> None:
    assert needs_reconcile(case["before"], case["after"]) is case["wanted"]


@pytest.mark.parametrize("case", CASES["deinit"], ids=lambda case: case["id"])
def test_whether_there_is_a_deinit_job(case: dict[str, Any]) -> None:
    karmada = {"metadata": {"labels": case["labels"], "finalizers": ["operator.karmada.io/finalizer"]}}
    assert cascades_deletion(karmada) is case["wanted"]
    # The finalizer is removed in both cases.
    assert build_release_patch(karmada) == {"metadata": {"finalizers": []}}
