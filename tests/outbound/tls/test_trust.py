"""Certificate authorities and server names of webhooks."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.cluster.certificates.certificate_files import ensure_certificates
from fleethook.outbound.call_errors import NotCalledError
from fleethook.outbound.client import HookClient
from fleethook.outbound.tls.trust import (
    MAX_BUNDLE,
    BundleError,
    bundle_problems,
    list_skipped,
    read_bundle,
)
from tests.faults.webhook_calls import LONG, catch_call_error, endpoint
from tests.hook_server import RawHook, run_raw_hook


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
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "self-signed")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]), critical=False)
    signed = builder.sign(key, None if kind == "Ed25519" else hashes.SHA256()).public_bytes(Encoding.PEM)
    async with run_raw_hook(tmp_path) as hook:
        hook.load(signed, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
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


@pytest.mark.parametrize("text", ["", "%%", base64.b64encode(b"no certificate").decode()])
def test_a_bundle_without_certificates_is_an_error(text: str) -> None:
    with pytest.raises(BundleError, match="not PEM in base64"):
        read_bundle(text)
