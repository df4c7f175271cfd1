"""Values of placeholders, and invalid ones."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from fleethook.cluster.certificates.authority import new_authority
from fleethook.engines.crds.apply.placeholders import build_values, substitute
from fleethook.engines.crds.crds_errors import CRDsError, Exit

AUTHORITY = new_authority(now=datetime.now(UTC))
PEM = AUTHORITY.certificate_pem


def refused(**given: Any) -> str:
    with pytest.raises(CRDsError) as raised:
        build_values(**given)
    assert raised.value.exit is Exit.USAGE
    return str(raised.value)


def test_missing_arguments_give_no_values() -> None:
    assert build_values() == {}


def test_certificates_go_in_as_they_are() -> None:
    bundle = b"# our own\n" + PEM + PEM
    values = build_values(name="demo", namespace="test", ca_pem=bundle)
    assert values == {
        "{{name}}": "demo-karmada-webhook", "{{namespace}}": "test", "{{caBundle}}": base64.b64encode(bundle).decode(),
    }  # fmt: skip


@pytest.mark.parametrize("text", ['a"', "a\nb", "a: b", "Demo", "-a", "a.b", "{{name}}", "a" * 64, "ä", "a\n"])
def test_a_text_that_could_end_another_is_refused(text: str) -> None:
    assert refused(namespace=text) == f"the namespace is {text!r}, which is not a DNS label"
    called = f"{text}-karmada-webhook"
    assert refused(name=text) == f"the webhook of {text!r} would be called {called!r}, which is not a DNS label"


def test_a_name_may_be_as_long_as_its_webhooks() -> None:
    longest = "karmada" + "a" * (63 - len("karmada-webhook"))
    assert len(build_values(name=longest)["{{name}}"]) == 63
    assert "which is not a DNS label" in refused(name=f"{longest}a")


@pytest.mark.parametrize(
    ("pem", "text"),
    [
        (b"", "unexpected empty ca cert data"),
        (b" \n", "unexpected empty ca cert data"),
        (b"text", "the CA's certificates are not PEM"),
        (b"\x00\xff", "the CA's certificates are not PEM"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "the CA's certificates are not PEM",
        ),
        (
            PEM + AUTHORITY.key_pem,
            "the file of the CA's certificates also has a private key, which the CRDs would publish",
        ),
    ],
    ids=range(6),
)
def test_invalid_certificates_are_refused(pem: bytes, text: str) -> None:
    assert refused(ca_pem=pem) == text


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "a: {{foo}}",
            Exit.ARCHIVE,
            "p.yaml has the placeholder {{foo}}: known are {{caBundle}}, {{name}}, {{namespace}}",
        ),
        (
            "a: {{ name }}",
            Exit.ARCHIVE,
            "p.yaml has the placeholder {{ name }}: known are {{caBundle}}, {{name}}, {{namespace}}",
        ),
        ("a: {{}}", Exit.ARCHIVE, "p.yaml has the placeholder {{}}: known are {{caBundle}}, {{name}}, {{namespace}}"),
        (
            "a: {{namespace}}",
            Exit.USAGE,
            "p.yaml needs the namespace of the instance for {{namespace}}: give --namespace",
        ),
        (
            "{{caBundle}}",
            Exit.USAGE,
            "p.yaml needs the certificates of the instance's CA for {{caBundle}}: give --ca-file",
        ),
    ],
)
def test_a_placeholder_without_a_value_is_reported_with_its_path(text: str, code: Exit, words: str) -> None:
    with pytest.raises(CRDsError) as raised:
        substitute("p.yaml", text, {"{{name}}": "a"})
    assert (raised.value.exit, str(raised.value)) == (code, words)


def test_other_braces_are_left_alone() -> None:
    assert substitute("p", "a: {b: {c: 1}} {name} {{name}}{{name}}", {"{{name}}": "x"}) == "a: {b: {c: 1}} {name} xx"
