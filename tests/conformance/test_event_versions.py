"""Events in the other version, as kube-apiserver converts them (event_versions.json)."""

import copy
import json
from pathlib import Path

from fleethook.engines.dispatch.version_conversion import plan_conversion
from fleethook.model.gvk import GroupVersionKind, parse_api_version

CASES = json.loads((Path(__file__).parent / "event_versions.json").read_text())["cases"]


def test_a_converted_event_equals_that_of_an_apiserver() -> None:
    for case in CASES:
        before = copy.deepcopy(case["before"])
        to = GroupVersionKind(*parse_api_version(case["after"]["apiVersion"]), "Event")
        assert plan_conversion(before, to, definition=None) == case["after"]
        assert before == case["before"], "the object is left alone"
    assert {one["before"]["apiVersion"] for one in CASES} == {"v1", "events.k8s.io/v1"}
