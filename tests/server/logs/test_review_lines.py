"""The log lines about answered reviews."""

import json
from typing import Any

import pytest

from fleethook.engines.interpret.chain import Step
from fleethook.engines.interpret.review.codec import decode_review as decode_question
from fleethook.engines.interpret.review.interpret_endpoint import make_interpret_line
from fleethook.interpret.question import Question
from fleethook.model.admission import AdmissionRequest, denied, patched
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from fleethook.server.logs.logs import MAX_LOGGED, Line, encode_line
from fleethook.server.logs.review_lines import find_cluster, make_admission_line
from fleethook.server.reviews import codec

KIND = {"group": "apps", "version": "v1", "kind": "Deployment"}


def encode(kind: str, version: str, request: Any) -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "request": request}).encode()


def admission(**request: Any) -> codec.Decoded:
    given = {"uid": "u-1", "operation": "CREATE", "namespace": "shop", "kind": KIND, **request}
    return codec.decode_review(encode("AdmissionReview", "admission.k8s.io/v1", given))


def request_of(decoded: codec.Decoded) -> AdmissionRequest:
    assert decoded.request is not None
    return decoded.request


def members(line: Line) -> dict[str, Any]:
    """Return the members of a line but those that are the same in all tests."""
    found = json.loads(encode_line(line))
    assert found.pop("ts")
    assert found.pop("level") == "info"
    return dict(found)


def line_of(review: codec.Decoded, response: Any = None) -> dict[str, Any]:
    answer = patched([{"op": "remove", "path": "/a"}]) if response is None else response
    return members(make_admission_line("/r", review, answer, seconds=0.0012345, request_id="r-1"))


ANSWERED = {
    "msg": "review",
    "route": "/r",
    "requestId": "r-1",
    "uid": "u-1",
    "allowed": True,
    "patchOps": 1,
    "ms": 1.235,
}
ASKED = {"gvk": "apps/v1/Deployment", "namespace": "shop", "operation": "CREATE"}


def test_a_line_names_the_object_under_review() -> None:
    metadata = {"name": "web", "annotations": {"kcp.io/cluster": "root:a"}}
    review = admission(name="web", object={"metadata": metadata})
    assert request_of(review).object  # as a handler decodes it
    assert line_of(review) == {**ANSWERED, **ASKED, "name": "web", "cluster": "root:a"}


def test_a_line_decodes_no_object_that_the_handler_has_not_decoded() -> None:
    review = admission(name="web", object={"metadata": {"annotations": {"kcp.io/cluster": "root:a"}}})
    assert line_of(review) == {**ANSWERED, **ASKED, "name": "web", "cluster": ""}
    assert "object" not in request_of(review).__dict__


@pytest.mark.parametrize(("generated", "name"), [("web-", "web-"), (7, "")])
def test_a_line_about_an_object_without_a_name_has_its_prefix(generated: Any, name: str) -> None:
    review = admission(object={"metadata": {"generateName": generated}})
    assert request_of(review).object
    assert line_of(review)["name"] == name


@pytest.mark.parametrize(("operation", "cluster"), [("DELETE", "root:old"), ("UPDATE", "")])
def test_the_old_object_names_the_cluster_only_of_a_deletion(operation: str, cluster: str) -> None:
    review = admission(operation=operation, oldObject={"metadata": {"annotations": {"kcp.io/cluster": "root:old"}}})
    request = request_of(review)
    assert request.old_object
    assert find_cluster(request) == cluster
    assert line_of(review)["cluster"] == cluster


def test_a_line_about_an_unreadable_review_has_its_uid_and_the_reason() -> None:
    review = admission(operation=3)
    assert review.request is None
    assert find_cluster(None) == ""
    line = line_of(review, denied("it cannot be read"))
    assert line == {**ANSWERED, "allowed": False, "patchOps": 0, "message": "it cannot be read"}


def test_long_texts_of_a_client_are_cut() -> None:
    long = "x" * 1024
    line = line_of(admission(name=long, namespace=long, kind={**KIND, "kind": long}), denied(long))
    cut = {name for name, value in line.items() if str(value).endswith(f"… ({1024 - MAX_LOGGED} characters left out)")}
    assert cut == {"name", "namespace", "message"}
    assert line["gvk"].endswith("characters left out)")
    assert max(len(str(value)) for value in line.values()) < MAX_LOGGED + 40


QUESTION = Question(Operation.HEALTH, GroupVersionKind("apps", "v1", "Deployment"), {})
REQUEST = {"uid": "u-1", "operation": "InterpretHealth", "namespace": "shop", "name": "web", "kind": KIND}


def interpret_line(question: Question | None = QUESTION, **given: Any) -> dict[str, Any]:
    request = REQUEST if question else {"uid": "u-1", "operation": 3}
    review = decode_question(encode("ResourceInterpreterContext", "config.karmada.io/v1alpha1", request))
    arguments: dict[str, Any] = {"steps": (), "problem": None, "seconds": 0.5, "request_id": "r-1", **given}
    return members(make_interpret_line("/interpret", review, question, **arguments))


EXPLORED = {
    "msg": "interpret", "route": "/interpret", "requestId": "r-1", "uid": "u-1", "successful": True, "ms": 500.0,
    "gvk": "apps/v1/Deployment", "operation": "InterpretHealth", "namespace": "shop", "name": "web",
}  # fmt: skip


def test_a_line_about_an_interpretation_names_the_layer_that_answered() -> None:
    steps = (Step("webhook", "", "none"), Step("lua", "shop/health", "answered"))
    assert interpret_line(steps=steps) == {**EXPLORED, "layer": "lua", "hook": "shop/health"}


def test_a_line_without_an_answer_names_no_layer_and_the_problem() -> None:
    failed = interpret_line(steps=(Step("native", "", "none"),), problem="no layer knows it")
    assert failed == {**EXPLORED, "successful": False, "message": "no layer knows it"}


def test_a_line_about_an_unreadable_question_has_its_uid() -> None:
    line = interpret_line(None, problem="it cannot be read")
    assert set(line) == {"msg", "route", "requestId", "uid", "successful", "ms", "message"}
