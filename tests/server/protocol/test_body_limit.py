"""The headers and the size of a body."""

import json

import pytest

from fleethook.model.admission import allowed
from fleethook.server.metrics.metrics import Metrics
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from tests.asgi_client import call

PATH = "/review"
REVIEW = json.dumps({
    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", "operation": "CREATE"},
}).encode()  # fmt: skip


@pytest.fixture
def endpoint() -> AdmissionEndpoint:
    return AdmissionEndpoint(PATH, lambda _: allowed(), metrics=Metrics(), body_limit=20_000, log=None)


async def test_a_body_in_chunks_is_the_same_body(endpoint: AdmissionEndpoint) -> None:
    body = REVIEW
    assert (await call(endpoint, PATH, body[:10], body[10:500], b"", body[500:])).status == 200


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_accepted_with_any_charset(endpoint: AdmissionEndpoint, content_type: str) -> None:
    assert (await call(endpoint, PATH, REVIEW, headers={"Content-Type": content_type})).status == 200


@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/yaml"},
                {"Content-Type": "application/json", "Content-Encoding": "gzip"}],
)  # fmt: skip
async def test_another_content_type_is_415(endpoint: AdmissionEndpoint, headers: dict[str, str]) -> None:
    answer = await call(endpoint, PATH, REVIEW, headers=headers)
    assert (answer.status, answer.json()["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_413(endpoint: AdmissionEndpoint, announced: bool) -> None:
    headers = {"content-type": "application/json"} | ({"content-length": "20001"} if announced else {})
    chunks = [b"{}"] if announced else [b" " * 10_000, b" " * 10_001]
    answer = await call(endpoint, PATH, *chunks, headers=headers)
    assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.json()["message"] == "the body is larger than 20000 bytes"
