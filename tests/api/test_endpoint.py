"""The method of a request, clients that leave, and the gate in front of an endpoint."""

import json

import pytest

from app.api.admission import AdmissionEndpoint
from app.api.endpoint import SWITCH_OFF_HINT, Gate
from app.api.metrics import Metrics
from app.model.admission import allowed
from tests.asgi_client import call

PATH = "/review"
REVIEW = json.dumps({
    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", "operation": "CREATE"},
}).encode()  # fmt: skip


@pytest.fixture
def endpoint() -> AdmissionEndpoint:
    return AdmissionEndpoint(PATH, lambda _: allowed(), metrics=Metrics(), body_limit=20_000, log=None)


async def test_a_client_that_goes_away_is_not_answered(endpoint: AdmissionEndpoint) -> None:
    assert (await call(endpoint, PATH, REVIEW[:20], None)).status == 0
    assert endpoint._metrics.in_flight == 0


async def test_only_post_is_accepted(endpoint: AdmissionEndpoint) -> None:
    answer = await call(endpoint, PATH, method="GET")
    assert (answer.status, answer.headers["allow"], answer.json()["reason"]) == (405, "POST", "MethodNotAllowed")


async def test_a_gate_stays_open_once_everything_was_read(endpoint: AdmissionEndpoint) -> None:
    problems = iter(["widgets cannot be read: 500", ""])
    gate = Gate(endpoint, lambda: next(problems))
    refused = await call(gate, PATH, REVIEW)
    assert (refused.status, refused.json()["message"]) == (503, f"widgets cannot be read: 500; {SWITCH_OFF_HINT}")
    answers = [await call(gate, PATH, REVIEW) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]
