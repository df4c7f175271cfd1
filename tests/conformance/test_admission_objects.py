"""Tools that work from files show webhooks and rules the objects that kube-apiserver shows (admission_objects.yaml)."""

import json
from typing import Any

import msgspec
import pytest

from fleethook.admission import mutate, validate
from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    RequestOperation,
    RequestOptions,
    make_input_request,
)
from fleethook.model.admission import AdmissionRequest
from fleethook.workload_schema.admission_objects import GENERATED
from tests.conformance.admission_objects import list_differences, load, mask
from tests.engines.dispatch.builders import store_of

FILE = load("default")
STORE = store_of(*FILE["definitions"])


def describe(case: dict[str, Any]) -> str:
    return f"{case['given']['kind']}-{case.get('subresource', '')}"


def show(document: Any) -> Any:
    """Return an object with random ends of names, as an apiserver generates them."""
    return mask(json.loads(json.dumps(document).replace(GENERATED, "q2w4t")))


def plan(case: dict[str, Any], phase: str) -> AdmissionRequest:
    stored, resource = case.get("stored"), f"/{case['subresource']}" if "subresource" in case else ""
    options = RequestOptions(RequestOperation.UPDATE if stored else None, {}, stored, False, "", resource)
    planned = make_input_request(STORE, InputDocument(case["given"], "m.yaml:1", None), options)
    return planned.request if phase == "mutating" else planned.validating


def place(document: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """Return an object in the namespace of another one."""
    namespace = {"namespace": "default"} if "namespace" in like["metadata"] else {}
    return {**document, "metadata": {**document["metadata"], **namespace}}


@pytest.mark.parametrize("case", FILE["cases"], ids=describe)
def test_a_manifest_becomes_the_objects_that_an_apiserver_shows(case: dict[str, Any]) -> None:
    unknown = set(case.get("unknown", ()))
    requests = {phase: plan(case, phase) for phase in ("mutating", "validating")}
    shown = {phase: show(request.object) for phase, request in requests.items()}
    found = list_differences(place(case["given"], shown["mutating"]), shown["mutating"])
    assert drop(found, unknown) == drop(case["mutating"], unknown)
    if "validating" in case:
        found = list_differences(shown["mutating"], shown["validating"])
        assert drop(found, unknown) == drop(case["validating"], unknown)
    if "stored" in case:
        old = show(msgspec.json.decode(requests["mutating"].old_object_raw))
        found = list_differences(place(case["stored"], old), old)
        assert drop(found, unknown) == drop(case["old"], unknown)


def drop(found: dict[str, Any], unknown: set[str]) -> dict[str, Any]:
    return {pointer: value for pointer, value in found.items() if pointer not in unknown}


def test_a_generated_name_is_known_to_validating_webhooks_only() -> None:
    (case,) = [one for one in FILE["cases"] if one["given"]["kind"] == "ConfigMap" and "stored" not in one]
    assert [plan(case, phase).name for phase in ("mutating", "validating")] == ["", f"generated-{GENERATED}"]


@pytest.mark.parametrize("case", FILE["cases"], ids=describe)
def test_a_rule_gets_the_objects_that_an_apiserver_shows(case: dict[str, Any]) -> None:
    planned = [plan(case, phase) for phase in ("mutating", "validating")]
    document, stored = (
        None if one is None else place(one, planned[0].object) for one in (case["given"], case.get("stored"))
    )
    seen: list[tuple[Any, Any, str]] = []

    def record(request: Any) -> None:
        seen.append((*json.loads(json.dumps([request.object, request.old])), request.name))

    options: dict[str, Any] = {
        "on": ("CREATE", "UPDATE"),
        "subresource": case.get("subresource", ""),
        "namespaces": "*",
    }
    for make in (mutate, validate):
        rule = make(case["given"]["apiVersion"], case["given"]["kind"], name="record", **options)(record)
        answer = rule.review(
            document,
            old=stored,
            operation="CREATE" if stored is None else "UPDATE",
            subresource=case.get("subresource", ""),
            store=FILE["definitions"],
        )
        assert (answer.reason, answer.message) == ("", "")
    assert seen == [(one.object, one.old_object, one.name) for one in planned]
