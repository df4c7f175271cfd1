"""Every route treats reviews that it cannot read alike: same status, same count, same members of the log line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleethook.app import create_app
from fleethook.server.reviews.http_checks import EXTENSION, make_client_extension
from fleethook.settings import Settings
from tests.asgi_client import Answer, call

CALLER = "kube-apiserver"
EXTENSIONS = {
    "tls": {"client_cert_name": f"CN={CALLER}"},
    EXTENSION: make_client_extension({"subject": ((("commonName", CALLER),),)}),
}
KARMADA = "config.karmada.io/v1alpha1"
INTERPRETING = ("/explore", "/explore-foo", "/explore-bar", "/interpret")


class Shape(NamedTuple):
    """The kind of the reviews of a route."""

    kind: str
    api_version: str
    flag: str
    """The member of a log line for the verdict."""

    def encode(self, request: Any) -> bytes:
        return json.dumps({"apiVersion": self.api_version, "kind": self.kind, "request": request}).encode()


ADMISSION = Shape("AdmissionReview", "admission.k8s.io/v1", "allowed")
INTERPRET = Shape("ResourceInterpreterContext", KARMADA, "successful")
ROUTES = sorted(create_app(Settings(), log=None).reviews)


def shape_of(route: str) -> Shape:
    return INTERPRET if route in INTERPRETING else ADMISSION


def path_of(route: str) -> str:
    return route.replace("{cluster}", "ws1")


class Seen(NamedTuple):
    """One request: its answer, the lines of the log, and the counts that it added."""

    answer: Answer
    lines: list[dict[str, Any]]
    counts: dict[tuple[str, str], float]
    """By operation and outcome."""


async def ask(route: str, body: bytes) -> Seen:
    lines: list[bytes] = []
    settings = Settings(dispatch_callers=[CALLER], client_ca_file=Path("ca.crt"), body_limit=1 << 20)
    app = create_app(settings, log=lines.append)
    app.engines["dispatch"].synced.set()
    headers = {"content-type": "application/json", "x-request-id": "r-1"}
    answer = await call(app, path_of(route), body, headers=headers, extensions=EXTENSIONS)
    counts = {
        (sample.labels["operation"], sample.labels["outcome"]): sample.value
        for metric in app.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "fleethook_reviews_total" and sample.labels["route"] == route
    }
    assert app.metrics.in_flight == 0
    return Seen(answer, [json.loads(line) for line in lines], counts)


def test_all_routes_are_asked() -> None:
    assert {shape_of(route) for route in ROUTES} == {ADMISSION, INTERPRET}
    assert len([route for route in ROUTES if route in INTERPRETING]) == len(INTERPRETING)
    assert {"/dispatch/mutate", "/clusters/{cluster}/explain", "/mutate-apps-v1-deployment"} <= set(ROUTES)


@pytest.mark.parametrize("size", [0, 40_000], ids=["small", "large"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_review_with_a_uid_that_cannot_be_read_is_an_error_on_every_route(route: str, size: int) -> None:
    shape = shape_of(route)
    seen = await ask(route, shape.encode({"uid": "u-1", "operation": 3, "object": {"text": "a" * size}}))
    response = seen.answer.json()["response"]
    message = "the review cannot be read: Expected `str`, got `int` - at `$.request.operation`"
    assert (seen.answer.status, response["uid"]) == (200, "u-1")
    assert (response["status"]["code"], response["status"]["message"]) == (400, message)
    assert seen.counts == {("", "errored"): 1}
    (line,) = seen.lines
    expected = {
        "level": "info", "route": route, "requestId": "r-1", "uid": "u-1", shape.flag: False, "message": message,
    }  # fmt: skip
    assert {name: line[name] for name in expected} == expected
    assert line["ms"] >= 0
    assert not {"gvk", "namespace", "name", "operation"} & set(line)


@pytest.mark.parametrize("size", [0, 40_000], ids=["small", "large"])
@pytest.mark.parametrize(
    "broken",
    [
        lambda shape, size: shape.encode({"uid": "u-1"})[:-1] + b" " * size,
        lambda _, size: b"[]" + b" " * size,
        lambda _, size: b"\xff" + b" " * size,
        lambda shape, size: shape.encode({"uid": "", "operation": "CREATE", "object": {"text": "a" * size}}),
        lambda shape, size: shape.encode(None) + b" " * size,
        lambda shape, size: shape._replace(api_version="v9").encode({"uid": "u-1"}) + b" " * size,
    ],
    ids=["cut", "array", "no-text", "no-uid", "no-request", "version"],
)
@pytest.mark.parametrize("route", ROUTES)
async def test_a_body_without_a_uid_is_malformed_on_every_route(
    route: str, broken: Callable[[Shape, int], bytes], size: int
) -> None:
    seen = await ask(route, broken(shape_of(route), size))
    status = seen.answer.json()
    assert (seen.answer.status, status["kind"], status["code"], status["reason"]) == (400, "Status", 400, "BadRequest")
    assert seen.counts == {("", "malformed"): 1}
    assert seen.lines == []


@pytest.mark.parametrize("route", ROUTES)
async def test_a_request_without_a_review_is_refused_before_its_body_is_read(route: str) -> None:
    app = create_app(Settings(client_ca_file=Path("ca.crt")), log=None)
    answer = await call(app, path_of(route), None)
    assert (answer.json()["kind"], answer.status in {401, 403, 404}) == ("Status", True)
