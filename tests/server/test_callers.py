"""Callers that settings name by their client certificate."""

from typing import Any

import pytest

from fleethook.server.callers import (
    EXTENSION,
    NamedCallers,
    describe_certificate,
    find_certificate_names,
    make_client_extension,
)

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
