"""`explain` makes the requests that kube-apiserver sends to admission (admission_requests.yaml)."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    RequestOperation,
    RequestOptions,
    find_problem,
    make_input_request,
)
from tests.conformance.admission_requests import describe_review, load
from tests.engines.dispatch.builders import store_of

CASES = load("default")


@pytest.mark.parametrize("case", CASES["requests"], ids=lambda case: case["request"])
def test_a_manifest_becomes_the_request_that_an_apiserver_sends(case: dict[str, Any]) -> None:
    manifest, options = case.get("manifest", case.get("body")), case.get("options", {})
    assert find_problem(manifest) == ""
    operation = RequestOperation(options["operation"]) if "operation" in options else None
    wanted = RequestOptions(operation, {}, None, False, "", options.get("resource", ""))
    planned = make_input_request(store_of(CASES["definition"]), InputDocument(manifest, "m.yaml:1", None), wanted)
    if case["reviewed"] is None:
        assert [note for note in planned.notes if note.startswith("no apiserver sends ")]
        return
    reviewed = [describe_review(msgspec.json.decode(msgspec.json.encode(one))) for one in planned[:2]]
    assert reviewed == [case.get("mutating", case["reviewed"]), case["reviewed"]]
    assert not planned.notes
