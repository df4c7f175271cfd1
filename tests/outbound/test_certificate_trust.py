"""Certificate authorities and server names of webhooks."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates
from fleethook.outbound.call_errors_and_failure_log import NotCalledError
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.outbound.certificate_trust import (
    MAX_BUNDLE,
    MAX_PRESENTED,
    Roots,
    TrustError,
    UntrustedError,
    bundle_problems,
    list_skipped,
    load_roots,
    read_bundle,
)
from tests.faults.webhook_calls import LONG, catch_call_error, endpoint
from tests.hook_server import RawHook, run_raw_hook
from tests.pki import certify, encode_key


@pytest.mark.parametrize("bundle", ["%%%", "====", "ü", *(base64.b64encode(text.encode()).decode() for text in (
    " ", "no certificate", "ключ", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
))])  # fmt: skip
async def test_an_invalid_ca_bundle_does_not_fall_back_to_the_system(
    client: HookClient, hook: RawHook, bundle: str
) -> None:
    error = await catch_call_error(client, endpoint(hook, ca_bundle=bundle))
    reason = str(error).partition(": unable to load root certificates: ")[2]
    assert reason in ("unable to parse bytes as PEM block", "failed to parse certificate: x509: malformed certificate")
    assert isinstance(error, NotCalledError)
    assert hook.connections == 0


async def test_the_certificate_must_contain_the_server_name(client: HookClient, tmp_path: Path) -> None:
    async with run_raw_hook(tmp_path, "other name") as hook:
        assert await client.post(endpoint(hook, server_name="other.example.com"), b"{}", seconds=10) == b"{}"
        error = await catch_call_error(client, endpoint(hook))
    assert "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs" in str(error)
    assert hook.asked == [first := hook.asked[0]], "a server without a trusted name must not get a request"
    assert b"POST /hook" in first.head


async def test_any_certificate_of_the_bundle_is_a_root(client: HookClient, hook: RawHook, tmp_path: Path) -> None:
    bundle = "# комментарий\n".encode() + (tmp_path / "tls.crt").read_bytes()
    assert await client.post(endpoint(hook, ca_bundle=base64.b64encode(bundle).decode()), b"{}", seconds=10) == b"{}"


KEYS: Final[dict[str, Callable[[], Any]]] = {
    "RSA 1024": lambda: rsa.generate_private_key(65537, 1024),
    "RSA 3072": lambda: rsa.generate_private_key(65537, 3072),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("kind", KEYS)
async def test_servers_with_each_kind_of_key_are_called(client: HookClient, tmp_path: Path, kind: str) -> None:
    """Go calls all of these; the certificate also has a usage that OpenSSL refuses, `any` only."""
    key = KEYS[kind]()
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE])
    signed = certify("self-signed", "self-signed", key, key, names, usage)
    async with run_raw_hook(tmp_path) as hook:
        hook.load(signed, encode_key(key))
        bundle = base64.b64encode(signed).decode()
        assert await client.post(endpoint(hook, ca_bundle=bundle), b"{}", seconds=LONG) == b"{}"
        error = await catch_call_error(client, endpoint(hook))
        assert "x509: certificate signed by unknown authority" in str(error)
        assert len(hook.asked) == 1


_LOADING = "Invalid value: unable to load root certificates: "
_BAD = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    files = ensure_certificates(tmp_path_factory.mktemp("certs"), names=["localhost"], now=datetime.now(UTC))
    return files.authority_certificate.read_text()


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        (None, ""),
        ("", ""),
        ("?", "it is not PEM in base64"),
        ("Zm9", "it is not PEM in base64"),
        (7, "it is not PEM in base64"),
        ("Zm9v", "unable to parse bytes as PEM block"),
        (encode(_BAD), "failed to parse certificate: x509: malformed certificate"),
    ],
)
def test_a_bundle_without_a_certificate_is_useless(bundle: str | None, text: str) -> None:
    assert [one.text for one in bundle_problems(bundle, "b")] == ([_LOADING + text] if text else [])
    assert list_skipped(bundle) == []


def test_one_certificate_is_enough(good: str) -> None:
    """kube-apiserver skips the other blocks (crypto/x509, AppendCertsFromPEM) and line ends (encoding/base64)."""
    for text, skipped in (
        (good, []),
        (_BAD + good, ["certificate 1 of 2: x509: malformed certificate"]),
        (good + _BAD.replace("CERTIFICATE", "X509 CERTIFICATE"), []),
    ):
        encoded = encode(text)
        lines = "".join(f"{encoded[at : at + 64]}\r\n" for at in range(0, len(encoded), 64))
        for bundle in (encoded, lines):
            assert (list(bundle_problems(bundle, "b")), list_skipped(bundle)) == ([], skipped)
            (one,) = read_bundle(bundle)
            assert one.start < datetime.now(UTC) < one.end


def test_a_bundle_is_limited() -> None:
    (problem,) = bundle_problems("A" * (MAX_BUNDLE + 1), "f")
    assert problem.text == f"Too long: must have at most {MAX_BUNDLE} characters"


GO: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "conformance" / "go_certificates.json").read_text(encoding="utf-8")
)
HOST: Final = "hook.example.com"
# Parts of Go's texts that users search for.
SAME_TEXTS: Final = (
    "certificate is valid for", "certificate is not valid for any names", "relies on legacy Common Name",
    "cannot validate certificate for", "unable to parse bytes as PEM block",
)  # fmt: skip
# cryptography 50 refuses chains of few authorities that Go accepts, and malformed extensions.
REFUSED_HERE: Final = frozenset({
    "extended key usage of the leaf: empty", "extended key usage of the root: empty",
    "extended key usage of the intermediate: empty", "key usage of the root: empty",
    "key usage of the intermediate: empty", "basic constraints of the leaf: false with path length 0",
    "root of version 1", "intermediate of version 1 as bundle", "key of the root: RSA 1024", "key of the root: P-224",
    "key of the root: Ed25519", "extension critical of the root: policy constraints",
    "extension critical of the leaf: policy constraints inhibit",
    "extension critical of the root: policy constraints inhibit",
    "extension critical of the intermediate: policy constraints inhibit", "malformed SCT list in the leaf",
    "policy required: shared policy", "policy required: any in the intermediate", "policy required: any in both",
    "serial of 30 bytes", "root with an empty name", "leaf with an empty name, signed by a root with the same",
})  # fmt: skip
# Go refuses forms that prove nothing about the host: none of these is expired, for another name, or not signed.
ACCEPTED_HERE: Final = frozenset({
    "authority identifier: critical", "subject identifier critical", "key of the leaf: P-224",
    "key of a self-signed leaf: P-224", "SAN that is not ASCII", "SAN with a URI that cannot be parsed",
    "SAN with a URI with a space in the host", "SAN with a URI with an empty label",
    "extension critical of the leaf: authority information access",
    "extension critical of the root: authority information access",
    "extension critical of the intermediate: authority information access", "common name that is no UTF-8",
})  # fmt: skip


def find_verdict(case: dict[str, Any]) -> str:
    pem = case["bundle"]
    if not isinstance(pem, str):
        blocks = (f"-----BEGIN CERTIFICATE-----\n{GO['certificates'][one]}\n-----END CERTIFICATE-----\n" for one in pem)
        pem = base64.b64encode("".join(blocks).encode()).decode()
    sent = [base64.b64decode(GO["certificates"][one]) for one in case["sent"]]
    now = datetime.fromisoformat(case.get("at", GO["now"]))
    try:
        load_roots(pem).verify(sent, host=case.get("host", HOST), now=now)
    except (TrustError, UntrustedError) as error:
        return error.args[-1]
    return "ok"


@pytest.mark.parametrize("case", GO["cases"], ids=lambda case: case["name"])
def test_verdicts_are_those_of_go(case: dict[str, Any]) -> None:
    verdict, go = find_verdict(case), case["go"]
    if case["name"] in REFUSED_HERE | ACCEPTED_HERE:
        assert (verdict == "ok", go == "ok") == (case["name"] in ACCEPTED_HERE, case["name"] in REFUSED_HERE)
        return
    assert (verdict == "ok") == (go == "ok"), f"Go: {go}; fleethook: {verdict}"
    expected = [text for text in SAME_TEXTS if text in go.partition(" (possibly")[0]]
    assert [text for text in expected if text not in verdict] == []


def issue(subject: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey) -> bytes:
    alternative = x509.SubjectAlternativeName([x509.DNSName(HOST)])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    pem = certify(subject, "CA", key, signer, alternative if subject == "leaf" else constraints)
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def test_candidates_for_issuers_are_limited() -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    leaf = issue("leaf", keys[0], keys[1])
    signer = issue("CA", keys[1], keys[1])
    strangers = [issue("CA", keys[0], keys[0]) for _ in range(300)]
    Roots([*strangers[:20], signer]).verify([leaf], host=HOST, now=datetime.now(UTC))
    with pytest.raises(UntrustedError, match="Exceeded maximum signature check limit"):
        Roots(strangers).verify([leaf], host=HOST, now=datetime.now(UTC))


@pytest.mark.parametrize("number", [0, MAX_PRESENTED + 1])
def test_the_number_of_certificates_is_limited(number: int) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = issue("leaf", key, key)
    with pytest.raises(UntrustedError, match="sent no certificate, more than 16"):
        Roots([leaf]).verify([leaf] * number, host=HOST, now=datetime.now(UTC))
