"""Our app with constant answers, in three forms; the difference to our server is the cost of our engines.

The protocol answers all reviews, as it does for our engines. *floor* is a handler that always returns the same verdict. The app decodes,
answers, counts and logs the review, as it does for every webhook. *noop* is the same, and admits everything. *echo* returns constant bytes: the cost of HTTP and TLS.
"""

import base64
import time
from typing import Any

import msgspec

from benchmarks.servers import EXPLORE, PATH
from fleethook.app import Fleethook
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.review.interpret_endpoint import (
    Interpreted,
    InterpretEndpoint,
    decode_review,
    make_interpret_line,
)
from fleethook.model.admission import allowed, patched
from fleethook.server.log import LogLines, encode_line
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.http_checks import Endpoint
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP
from fleethook.settings import Settings

OPERATION = {"op": "replace", "path": "/spec/replicas", "value": 5}
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def answer_constantly(app: Fleethook, settings: Settings, form: str) -> None:
    """Make the app answer with constant verdicts (``floor``, ``noop``), or with constant bytes (``echo``)."""
    known: dict[str, Any] = {"metrics": app.metrics, "body_limit": settings.body_limit, "bodies": app.bodies}
    if form == "echo":
        app.reviews[PATH] = ConstantBytes(PATH, known_clients_only=False, **known)
        return
    verdict = allowed() if form == "noop" else patched([OPERATION])
    known["log"] = LogLines().write
    app.reviews[PATH] = AdmissionEndpoint(PATH, lambda _: verdict, **known)
    app.reviews[EXPLORE] = ConstantAnswer(EXPLORE, Chain([]), **known)


class ConstantAnswer(InterpretEndpoint):
    """Does the minimum of an interpreter: decodes the review, answers with its uid, counts and logs."""

    def answer(self, scope: Any, body: bytes) -> Reply:
        del scope
        started = time.perf_counter()
        asked = decode_review(body)
        answer = msgspec.json.encode(
            {
                "apiVersion": "config.karmada.io/v1alpha1", "kind": asked.kind,
                "response": {"uid": asked.uid, "successful": True, "healthy": True},
            }
        )  # fmt: skip
        seconds = time.perf_counter() - started
        self.metrics.count_review(self._path, "InterpretHealth", "answered", seconds=seconds)
        verdict = Interpreted(None, (), None)
        line = make_interpret_line(self._path, asked, verdict, seconds=seconds, request_id=asked.uid)
        self._log(encode_line(line))
        return Reply(200, answer)


def constant_answer() -> bytes:
    patch = base64.b64encode(msgspec.json.encode([OPERATION])).decode()
    response = {"uid": UID, "allowed": True, "patch": patch, "patchType": "JSONPatch"}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


class ConstantBytes(Endpoint):
    """An endpoint with the same app, TLS, routing and body reading that decodes and counts nothing."""

    max_at_once = MAX_ON_LOOP
    _constant = Reply(200, constant_answer())

    def answer(self, scope: Any, body: bytes) -> Reply:
        """Return the constant."""
        del scope, body
        return self._constant
