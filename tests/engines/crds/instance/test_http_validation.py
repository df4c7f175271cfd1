"""Validation of ``spec.crdTarball.httpSource``, beyond the cases of the conformance data."""

import base64
from typing import Any

import pytest

from fleethook.engines.crds.instance.http_validation import (
    MAX_MIRRORS,
    MAX_NO_PROXY,
    find_http_problems,
    find_reference_problems,
)
from fleethook.model.formats.field_errors import Problem

URL = "https://h/crds.tar.gz"

HTTP = "spec.crdTarball.httpSource"


def found_http(*, strict: bool = False, namespace: Any = "n", **members: Any) -> list[str]:
    source = {"url": URL, **members}
    problems = find_http_problems(source, HTTP, namespace=namespace, strict=strict)
    return [f"{field}: {text}".removeprefix(f"{HTTP}.") for field, text in problems]


def test_every_member_at_its_best_is_fine() -> None:
    assert (
        found_http(
            proxy={"proxyURL": "socks5h://p:1080", "secretRef": {"name": "p"}, "noProxy": ["a", ".b"]},
            sha256="A" * 64,
            mirrors=["https://m/crds.tar.gz"] * 8,
            caSecretRef={"name": "c", "namespace": "n"},
            secretRef={"name": "s"},
            timeoutSeconds=3600,
            maxBytes=1,
        )
        == []
    )


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"url": 5}, "url: Invalid value: must be a string"),
        ({"url": "https://:443/"}, 'url: Invalid value: "https://:443/": host is required'),
        ({"url": "https://h:0/"}, 'url: Invalid value: "https://h:0/": port must be between 1 and 65535'),
        ({"url": "https://h:65536/"}, 'url: Invalid value: "https://h:65536/": port must be between 1 and 65535'),
        ({"url": "https://h/#f"}, 'url: Invalid value: "https://h/#f": must not have a fragment'),
        ({"url": "*"}, 'url: Invalid value: "*": scheme must be http or https'),
        ({"proxy": 5}, "proxy: Invalid value: must be an object"),
        (
            {"proxy": {"proxyURL": "ftp://p"}},
            'proxy.proxyURL: Invalid value: "ftp://p": scheme must be http, https, socks5 or socks5h',
        ),
        ({"proxy": {"proxyURL": URL, "noProxy": "a"}}, "proxy.noProxy: Invalid value: must be a list"),
        ({"proxy": {"proxyURL": URL, "noProxy": [" "]}}, "proxy.noProxy[0]: Required value"),
        ({"proxy": {"proxyURL": URL, "noProxy": [1]}}, "proxy.noProxy[0]: Invalid value: must be a string"),
        ({"proxy": {"proxyURL": URL, "secretRef": {}}}, "proxy.secretRef.name: Required value"),
        ({"sha256": "a" * 63}, f'sha256: Invalid value: "{"a" * 63}": must be 64 hexadecimal digits'),
        ({"sha256": 1}, "sha256: Invalid value: must be a string"),
        ({"mirrors": URL}, "mirrors: Invalid value: must be a list"),
        ({"mirrors": [URL] * 9}, "mirrors: Too many: 9: must have at most 8 items"),
        ({"mirrors": [URL, "m"]}, 'mirrors[1]: Invalid value: "m": invalid CRDs mirror URL'),
        ({"caBundle": "?"}, "caBundle: Invalid value: unable to load root certificates: it is not PEM in base64"),
        ({"caSecretRef": []}, "caSecretRef: Invalid value: must be an object"),
        ({"secretRef": {"name": 1}}, "secretRef.name: Invalid value: must be a string"),
        (
            {"secretRef": {"name": "s", "namespace": "other"}},
            "secretRef.namespace: Forbidden: must be the namespace of the Karmada, or empty",
        ),
        ({"timeoutSeconds": 3601}, "timeoutSeconds: Invalid value: must be between 1 and 3600"),
        ({"timeoutSeconds": True}, "timeoutSeconds: Invalid value: must be an integer"),
        ({"maxBytes": 0}, "maxBytes: Invalid value: must be between 1 and 1073741824"),
        ({"maxBytes": 1.0}, "maxBytes: Invalid value: must be an integer"),
    ],
)
def test_an_invalid_field_of_an_http_source_is_reported(members: dict[str, Any], text: str) -> None:
    assert found_http(**members) == [text]


def test_authorities_are_given_once() -> None:
    texts = found_http(caBundle=base64.b64encode(b"x").decode(), caSecretRef={"name": "c"})
    assert texts[1:] == ["caSecretRef: Forbidden: may not be set together with caBundle"]


def test_a_secret_is_not_shown_however_broken_its_url_is() -> None:
    (refusal,) = found_http(url="user:hunter2@h/crds.tar.gz")
    assert "hunter2" not in refusal
    assert refusal.startswith("url: Invalid value: ")


@pytest.mark.parametrize("source", [None, {}, {"url": None, "proxy": None, "sha256": None}])
def test_an_absent_source_or_member_has_no_problem(source: Any) -> None:
    assert list(find_http_problems(source, HTTP, namespace="n", strict=True)) == []


@pytest.mark.parametrize("source", [5, "text", []])
def test_a_source_that_is_not_an_object_is_one_problem(source: Any) -> None:
    assert list(find_http_problems(source, HTTP, namespace="n", strict=False)) == [
        Problem(HTTP, "Invalid value: must be an object")
    ]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"url": "https://user:hunter2@h/"}, "url"),
        ({"mirrors": ["https://user:hunter2@h/"]}, "mirrors[0]"),
        ({"proxy": {"proxyURL": "http://user:hunter2@p/"}}, "proxy.proxyURL"),
    ],
)
def test_credentials_in_a_url_are_refused_only_if_strict(members: dict[str, Any], field: str) -> None:
    assert found_http(**members) == []
    (refusal,) = found_http(strict=True, **members)
    assert refusal.startswith(f"{field}: Invalid value: ")
    assert refusal.endswith("must not have credentials: name a Secret in secretRef")
    assert "hunter2" not in refusal


@pytest.mark.parametrize(
    ("reference", "texts"),
    [
        ({"name": "s"}, []),
        ({"name": "s", "namespace": "n"}, []),
        ({"name": "s", "namespace": ""}, []),
        (
            {"name": "s", "namespace": "other"},
            ["r.namespace: Forbidden: must be the namespace of the Karmada, or empty"],
        ),
        ({"name": 5}, ["r.name: Invalid value: must be a string"]),
        (5, ["r: Invalid value: must be an object"]),
        (None, []),
    ],
)
def test_a_reference_names_an_object_in_the_namespace_of_the_instance(reference: Any, texts: list[str]) -> None:
    found = find_reference_problems(reference, "r", namespace="n")
    assert [f"{field}: {text}" for field, text in found] == texts


@pytest.mark.parametrize("reference", [{}, {"name": ""}, {"name": None}])
def test_a_reference_without_a_name_lacks_it(reference: Any) -> None:
    (problem,) = find_reference_problems(reference, "r", namespace="n")
    assert problem.field == "r.name"
    assert "Required value" in problem.text


@pytest.mark.parametrize(("port", "is_allowed"), [("1", True), ("065535", True), ("65536", False), ("9" * 5000, False)])
def test_ports_of_any_length_are_compared(port: str, *, is_allowed: bool) -> None:
    assert (found_http(url=f"https://h:{port}/") == []) is is_allowed


def test_elements_beyond_the_limit_are_counted_and_not_read() -> None:
    mirrors = ["https://m/"] * MAX_MIRRORS + [5]
    assert found_http(mirrors=mirrors) == ["mirrors: Too many: 9: must have at most 8 items"]
    names = ["a"] * MAX_NO_PROXY + [5]
    found = found_http(proxy={"proxyURL": "http://p", "noProxy": names})
    assert found == ["proxy.noProxy: Too many: 65: must have at most 64 items"]
