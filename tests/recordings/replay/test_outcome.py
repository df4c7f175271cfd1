import base64
import json
from typing import Any

import pytest

from fleethook.recordings.replay.outcome import compare_outcomes, read_outcome

OBJECT = {"metadata": {"name": "a"}, "spec": {"replicas": 1, "list": [1, 2]}}


def admission(**response: Any) -> bytes:
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    ).encode()


def refused(message: str = "no", code: int = 403, reason: str = "Forbidden", **members: Any) -> bytes:
    return admission(allowed=False, status={"message": message, "code": code, "reason": reason, **members})


def patched(*operations: dict[str, Any], **members: Any) -> bytes:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return admission(allowed=True, patch=text, patchType="JSONPatch", **members)


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def explored(kind: str = "ExploreReview", **response: Any) -> bytes:
    return json.dumps({"kind": kind, "response": {"uid": "u", "successful": True, **response}}).encode()


def aspects(before: bytes, after: bytes, *, status: tuple[int, int] = (200, 200)) -> list[str]:
    review = json.dumps({"request": {"object": OBJECT}}).encode()
    outcomes = [read_outcome(*one) for one in zip(status, (before, after), strict=True)]
    return [one.aspect for one in compare_outcomes(outcomes[0], outcomes[1], review)]


ALLOWED = admission(allowed=True)
SCALED = patched(replace("/spec/replicas", 2))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ALLOWED, ALLOWED, []),
        (ALLOWED, refused(), ["verdict", "code", "message"]),
        (refused("no"), refused("never"), ["message"]),
        (refused(code=403), refused(code=422), ["code"]),
        (refused(reason="Forbidden"), refused(reason="Invalid"), ["code"]),
        (refused(), refused(details={"causes": [{"field": "spec", "message": "bad"}]}), ["message"]),
        (ALLOWED, SCALED, ["object"]),
        (SCALED, ALLOWED, ["object"]),
        (SCALED, refused(), ["verdict", "code", "message"]),
        (SCALED, patched(replace("/spec", {"list": [1, 2], "replicas": 2})), []),
        (ALLOWED, patched(replace("/spec/replicas", 1)), []),
        (SCALED, patched(replace("/spec/replicas", 2.0)), ["object"]),
        (SCALED, patched({"op": "remove", "path": "/spec/none"}), ["object"]),
        (ALLOWED, admission(allowed=True, patch="%%%", patchType="JSONPatch"), ["object"]),
        (admission(allowed=True, warnings=["a", "b"]), admission(allowed=True, warnings=["b", "a"]), []),
        (admission(allowed=True, warnings=["a"]), admission(allowed=True, warnings=["a", "a"]), ["warnings"]),
        (ALLOWED, admission(allowed=True, warnings=["a"]), ["warnings"]),
        (ALLOWED, admission(allowed=True, auditAnnotations={"a/b": "c"}), []),
        (explored(healthy=True), explored(healthy=False), ["result"]),
        (explored(status={"a": 1}), explored(status={"a": 2}), ["result"]),
        (explored(status={"a": 1, "b": 2}), explored(status={"b": 2, "a": 1}), []),
        (explored(successful=False, code=500, message="x"), explored(successful=False, code=500, message="y"), ["message"]),
        (explored(healthy=True), explored(successful=False, code=500, message="x"), ["verdict", "code", "message", "result"]),
        (b'{"cluster":"a"}', b'{"cluster":"b"}', ["result"]),
        (b'{"a":1,"b":2}', b'{"b":2, "a":1}', []),
        (b"text", b"other", ["result"]),
    ],
)  # fmt: skip
def test_the_parts_that_differ(before: bytes, after: bytes, expected: list[str]) -> None:
    assert aspects(before, after) == expected


def test_a_context_keeps_the_status_of_the_call_apart_from_results() -> None:
    one = explored("ResourceInterpreterContext", status={"code": 200}, rawStatus={"a": 1})
    assert aspects(one, explored("ResourceInterpreterContext", status={"code": 200}, rawStatus={"a": 2})) == ["result"]
    failed = explored("ResourceInterpreterContext", successful=False, status={"code": 500, "message": "x"})
    assert aspects(one, failed) == ["verdict", "code", "message", "result"]


def test_the_patch_of_an_interpreter_changes_its_object() -> None:
    text = base64.b64encode(json.dumps([replace("/spec/replicas", 2)]).encode()).decode()
    assert aspects(explored(), explored(patch=text, patchType="JSONPatch")) == ["object"]


def test_http_errors_compare_by_status_reason_and_message() -> None:
    error = json.dumps({"kind": "Status", "reason": "BadRequest", "message": "m"}).encode()
    other = json.dumps({"kind": "Status", "reason": "BadRequest", "message": "n"}).encode()
    assert aspects(error, error, status=(400, 400)) == []
    assert aspects(error, other, status=(400, 400)) == ["message"]
    assert aspects(error, ALLOWED, status=(400, 200)) == ["status", "verdict", "code", "message"]
