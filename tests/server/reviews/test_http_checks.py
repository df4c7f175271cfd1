"""The method of a request, clients that leave, names in certificates, and objects that were not read yet."""

import json
from typing import Any

import pytest

from fleethook.app import create_app
from fleethook.model.admission import allowed
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.bodies import RequestError
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.http_checks import (
    EXTENSION,
    MAX_DIGITS,
    SWITCH_OFF_HINT,
    NamedCallers,
    check_numbers,
    describe_certificate,
    find_certificate_names,
    make_client_extension,
)
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP
from fleethook.settings import Settings
from tests.asgi_client import call

LONG = "1" * (MAX_DIGITS + 1)


@pytest.mark.parametrize(
    "body",
    [
        f'{{"a":{"1" * MAX_DIGITS},"b":"\\\\"}}', f'{{"a":"{LONG}"}}', f'{{"a":"\\"{LONG}","b":[1,"x{LONG}{LONG}"]}}',
        f'["\\\\\\"{LONG}"]', f'"{LONG}', "[]", "",
    ],
)  # fmt: skip
def test_texts_may_have_many_digits(body: str) -> None:
    check_numbers(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        f"[{LONG}]", f'{{"a":-{LONG}}}', f"[0.{LONG}e5]", LONG, f'["{LONG}",{LONG}]', f'["\\\\",{LONG}]',
        f'["\\"",{LONG},"a"]', f'["a","{LONG}","\\\\\\\\", {LONG}]',
    ],
)  # fmt: skip
def test_a_long_number_is_refused(body: str) -> None:
    with pytest.raises(RequestError, match=f"more than {MAX_DIGITS} digits") as refused:
        check_numbers(body.encode())
    assert refused.value.code == 400


@pytest.mark.parametrize("path", ["/mutate-apps-v1-deployment", "/interpret", "/clusters/ws1/mutate"])
async def test_a_large_review_with_a_long_number_is_refused_unread(path: str) -> None:
    body = json.dumps({"a": "a" * MAX_ON_LOOP}).encode()[:-1] + b',"b":' + LONG.encode() + b"}"
    answer = await call(create_app(Settings(), log=None), path, body)
    assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")
    assert "digits" in answer.json()["message"]


PATH = "/review"
REVIEW = json.dumps({
    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", "operation": "CREATE"},
}).encode()  # fmt: skip


@pytest.fixture
def endpoint() -> AdmissionEndpoint:
    return AdmissionEndpoint(PATH, lambda _: allowed(), metrics=Metrics(), body_limit=20_000, log=None)


async def test_a_client_that_goes_away_is_not_answered(endpoint: AdmissionEndpoint) -> None:
    assert (await call(endpoint, PATH, REVIEW[:20], None)).status == 0
    assert endpoint.metrics.in_flight == 0


async def test_only_post_is_accepted(endpoint: AdmissionEndpoint) -> None:
    answer = await call(endpoint, PATH, method="GET")
    assert (answer.status, answer.headers["allow"], answer.json()["reason"]) == (405, "POST", "MethodNotAllowed")


async def test_an_endpoint_answers_once_everything_was_read(endpoint: AdmissionEndpoint) -> None:
    problems = iter(["widgets cannot be read: 500", ""])
    endpoint.missing = lambda: next(problems)
    refused = await call(endpoint, PATH, REVIEW)
    assert (refused.status, refused.json()["message"]) == (503, f"widgets cannot be read: 500; {SWITCH_OFF_HINT}")
    answers = [await call(endpoint, PATH, REVIEW) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]


CERTIFICATE: dict[str, Any] = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("commonName", "mallory"),),
        (("commonName", "kube-apiserver"),),
    ),
    "subjectAltName": (
        ("DNS", "apiserver.example.org"),
        ("URI", "spiffe://example.org/apiserver"),
        ("IP Address", "10.0.0.1"),
        ("email", "root@example.org"),
    ),
}


def test_a_certificate_names_its_holder_by_common_name_dns_name_and_uri() -> None:
    assert find_certificate_names(CERTIFICATE) == {
        "kube-apiserver", "apiserver.example.org", "spiffe://example.org/apiserver",
    }  # fmt: skip


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ((("commonName", ""),),)}])
def test_without_a_certificate_there_is_no_name(certificate: dict[str, Any] | None) -> None:
    assert find_certificate_names(certificate) == frozenset()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["kube-apiserver"], "kube-apiserver"),
        (["other", "apiserver.example.org"], "apiserver.example.org"),
        (["spiffe://example.org/apiserver"], "spiffe://example.org/apiserver"),
        (["mallory"], ""),
        (["system:masters"], ""),
        (["10.0.0.1"], ""),
        (["KUBE-APISERVER"], ""),
        (["commonName=kube-apiserver"], ""),
        (["kube"], ""),
        ([], ""),
    ],
)
def test_a_caller_is_found_by_an_exact_name(names: list[str], found: str) -> None:
    scope = {"type": "http", "extensions": {"tls": {}, EXTENSION: make_client_extension(CERTIFICATE)}}
    assert NamedCallers(names).find(scope) == found


@pytest.mark.parametrize("extensions", [None, {}, {EXTENSION: {}}, {EXTENSION: make_client_extension(None)}])
def test_a_caller_without_a_certificate_is_not_found(extensions: dict[str, Any] | None) -> None:
    scope = {"type": "http", "extensions": extensions}
    assert NamedCallers(["kube-apiserver", ""]).find(scope) == ""


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (None, None),
        ({}, None),
        (CERTIFICATE, "organizationName=system:masters,commonName=mallory,commonName=kube-apiserver"),
        ({"subject": (), "subjectAltName": (("URI", "spiffe://a/b"), ("DNS", "b"))}, "URI=spiffe://a/b,DNS=b"),
        ({"subject": ()}, ""),
        ({"serialNumber": "1"}, ""),
    ],
)
def test_messages_name_a_caller_by_subject_or_alternative_names(certificate: Any, text: str | None) -> None:
    assert describe_certificate(certificate) == text
