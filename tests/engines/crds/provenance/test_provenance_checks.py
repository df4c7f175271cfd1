"""Attestations in both forms, verified offline, and refused with any member changed."""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance import provenance_checks
from fleethook.engines.crds.provenance.attestation import MAX_BYTES, Expected, parse_attestation
from fleethook.engines.crds.provenance.provenance_checks import (
    Provenance,
    TrustRoot,
    read_trust_root,
    verify_attestation,
)
from tests.engines.crds.provenance.signing import BUILDER, ISSUED, REF, SOURCE, Identity, Log, Sigstore, b64, statement

SIGSTORE = Sigstore()


def test_pem_has_authorities_and_no_logs(tmp_path: Path) -> None:
    found = read_trust_root(tmp_path / "fulcio.pem", SIGSTORE.pem)
    assert len(found.authorities) == 2
    assert found.logs is None


def test_a_trusted_root_has_both(tmp_path: Path) -> None:
    path = tmp_path / "trusted_root.json"
    path.write_text("\n " + json.dumps(SIGSTORE.trusted_root()))
    found = read_trust_root(path, path.read_bytes())
    assert {one.subject for one in found.authorities} == {
        one.subject for one in read_trust_root(path, SIGSTORE.pem).authorities
    }
    assert found.logs is not None


@pytest.mark.parametrize("data", [b"", b"text", b"[]", SIGSTORE.pem.replace(b"MII", b"AAA")])
def test_any_other_file_is_a_usage_error_that_names_it(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "root"
    with pytest.raises(CRDsError, match=f"--trust-root {path}: neither PEM certificates nor a Sigstore") as raised:
        read_trust_root(path, data)
    assert raised.value.exit is Exit.USAGE


def test_without_the_library_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named 'sigstore' ({name})", name="sigstore")

    monkeypatch.setattr(provenance_checks.importlib, "import_module", find_nothing)
    with pytest.raises(CRDsError, match=r"install fleethook\[provenance\], or give the certificates") as raised:
        read_trust_root(tmp_path / "root.json", b"{}")
    assert raised.value.exit is Exit.USAGE


SHA256 = "ab" * 32

LOGS = "certificate transparency", "transparency log", "signing time"


def _root(path: Path, data: bytes) -> TrustRoot:
    path.write_bytes(data)
    return read_trust_root(path, data)


@pytest.fixture
def root(tmp_path: Path) -> TrustRoot:
    return _root(tmp_path / "trusted_root.json", json.dumps(SIGSTORE.trusted_root()).encode())


@pytest.fixture
def pem(tmp_path: Path) -> TrustRoot:
    return _root(tmp_path / "fulcio.pem", SIGSTORE.pem)


def verify(document: Any, root: TrustRoot, expected: Expected = Expected()) -> Provenance:  # noqa: B008 - immutable
    return verify_attestation(parse_attestation(json.dumps(document).encode()), root, expected)


def refuse(document: Any, root: TrustRoot, text: str, expected: Expected = Expected()) -> None:  # noqa: B008 - immutable
    with pytest.raises(CRDsError, match=text) as caught:
        verify(document, root, expected)
    assert caught.value.exit == Exit.INTEGRITY


def outcome(data: bytes, root: TrustRoot) -> str | Exit:
    """The digest that is proven, or the code of the error."""
    try:
        return verify_attestation(parse_attestation(data), root, Expected()).subject.sha256
    except CRDsError as error:
        return error.exit


def unverified(found: Provenance) -> tuple[str, ...]:
    return tuple(check.name for check in found.unverified)


def test_a_bundle_proves_everything_with_the_logs_of_the_trust_root(root: TrustRoot) -> None:
    found = verify(SIGSTORE.bundle(statement(SHA256)), root, Expected(tag="v1.14.0"))
    assert (found.form, found.subject) == ("bundle", ("crds.tar.gz", SHA256))
    assert (found.identity.builder, found.identity.source, found.identity.ref) == (BUILDER, SOURCE, REF)
    assert unverified(found) == ()
    assert found.checks[-1].detail == "2025-05-30T08:00:05Z, while the certificate was valid"


def test_an_envelope_cannot_prove_its_log_entry_and_its_time(root: TrustRoot) -> None:
    found = verify(SIGSTORE.envelope(statement(SHA256)), root)
    assert (found.form, found.subject.sha256) == ("envelope", SHA256)
    assert unverified(found) == LOGS[1:]


@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_certificates_alone_prove_no_log(pem: TrustRoot, form: str) -> None:
    found = verify(getattr(SIGSTORE, form)(statement(SHA256)), pem)
    assert (found.form, found.subject.sha256) == (form, SHA256)
    assert unverified(found) == LOGS


def test_an_old_bundle_has_a_chain_of_certificates(root: TrustRoot) -> None:
    document = SIGSTORE.bundle(statement(SHA256))
    document["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.2"
    material = document["verificationMaterial"]
    material["x509CertificateChain"] = {"certificates": [material.pop("certificate")]}
    assert unverified(verify(document, root)) == ()


# --- Every member -----------------------------------------------------------------------------------------------------


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield from _places(inner, (*path, key))


def _with(document: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    change(place, path[-1])
    return changed


def _flip(text: str, index: int) -> str:
    found = text[index]
    # The last character of base64 may have bits that no decoder reads: these characters differ in the others.
    return (
        text[:index]
        + ("w" if found == "A" else "8" if found == "0" else "0" if found.isdigit() else "A")
        + text[index + 1 :]
    )


def _put(value: Any) -> Callable[[Any, Any], None]:
    def put(place: Any, key: Any) -> None:
        place[key] = value

    return put


def _changes(value: Any) -> Iterator[Callable[[Any, Any], None]]:
    yield lambda place, key: place.pop(key)
    for other in (None, 7, "", [], {}, "A" * 64):
        yield _put(other)
    if isinstance(value, str) and value:
        for index in {0, len(value) // 3, len(value) // 2, max(0, len(value) - 3)}:
            yield _put(_flip(value, index))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


# A key's name is a hint that DSSE does not sign, and no verifier here uses it.
_UNSIGNED = {("signatures", 0, "keyid"), ("dsseEnvelope", "signatures", 0, "keyid")}


@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_a_changed_member_is_never_accepted(root: TrustRoot, form: str) -> None:
    document = getattr(SIGSTORE, form)(statement(SHA256))
    accepted, refused = [], 0
    for path in _places(document):
        for change in _changes(_at(document, path)):
            changed = _with(document, path, change)
            if changed == document or path in _UNSIGNED:
                continue
            if outcome(json.dumps(changed).encode(), root) == Exit.INTEGRITY:
                refused += 1
            else:
                accepted.append(path)
    assert accepted == []
    assert refused > (50 if form == "envelope" else 200)


@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_changed_bytes_end_in_an_error_without_a_traceback(root: TrustRoot, form: str) -> None:
    text = json.dumps(getattr(SIGSTORE, form)(statement(SHA256))).encode()
    for index in range(0, len(text), 37):
        for byte in (b"\x00", b"\xff", b'"', b"}", b""):
            changed = text[:index] + byte + text[index + 1 :]
            assert outcome(changed, root) in {SHA256, Exit.INTEGRITY}


@pytest.mark.parametrize("member", ["tlogs", "ctlogs", "certificateAuthorities"])
def test_a_bundle_of_another_sigstore_is_refused(tmp_path: Path, member: str) -> None:
    document = {**SIGSTORE.trusted_root(), member: Sigstore().trusted_root()[member]}
    other = _root(tmp_path / "other.json", json.dumps(document).encode())
    refuse(SIGSTORE.bundle(statement(SHA256)), other, "cannot be verified|not issued by an authority")


@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_a_certificate_of_another_authority_is_refused(pem: TrustRoot, form: str) -> None:
    refuse(getattr(Sigstore(), form)(statement(SHA256)), pem, "not issued by an authority of --trust-root")


# --- Identity ---------------------------------------------------------------------------------------------------------

_OTHER = "https://github.com/karmada-io/evil"


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (Identity(issuer="https://accounts.example.com"), "issuer is https://accounts.example.com"),
        (Identity(source=_OTHER), f"source repository is {_OTHER}"),
        (Identity(source=f"{SOURCE}x"), "source repository"),
        (Identity(builder=f"{_OTHER}/.github/workflows/release.yml@refs/tags/v1.0.0"), "certificate's builder is"),
        (Identity(builder=BUILDER.replace("refs/tags/v2.1.0", "refs/heads/main")), "certificate's builder is"),
        (Identity(builder=BUILDER.replace("v2.1.0", "v2.1.0-rc.1")), "certificate's builder is"),
        (Identity(builder=f"https://evil.test/?{BUILDER}"), "certificate's builder is"),
        (Identity(ref="refs/tags/v1.13.0"), "source ref is refs/tags/v1.13.0"),
        (Identity(ref="refs/heads/v1.14.0"), "source ref is refs/heads/v1.14.0"),
    ],
)
@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_another_identity_is_refused(root: TrustRoot, form: str, identity: Identity, text: str) -> None:
    document = getattr(SIGSTORE, form)(statement(SHA256), SIGSTORE.signer(identity))
    refuse(document, root, text, Expected(tag="v1.14.0"))


def test_another_identity_is_accepted_if_it_is_expected(root: TrustRoot) -> None:
    fork = Identity(
        source="https://github.com/me/fork", builder="https://github.com/me/w/.github/workflows/b.yml@refs/heads/x"
    )
    predicate = statement(SHA256)["predicate"]
    predicate["builder"]["id"] = fork.builder
    predicate["invocation"]["configSource"]["uri"] = f"git+{fork.source}@{REF}"
    document = SIGSTORE.bundle(statement(SHA256, predicate=predicate), SIGSTORE.signer(fork))
    for source in ("github.com/me/fork", "https://github.com/me/fork/"):
        assert verify(document, root, Expected(source=source, builder=fork.builder)).subject.sha256 == SHA256
    refuse(
        document,
        root,
        "certificate.s builder is",
        Expected(source="github.com/me/fork", builder=fork.builder.replace("/x", "/y")),
    )


def test_a_second_name_in_the_certificate_is_refused(root: TrustRoot) -> None:
    signer = SIGSTORE.signer(names=[x509.DNSName("evil.test")])
    refuse(SIGSTORE.envelope(statement(SHA256), signer), root, "must have one subject alternative name")


# --- Certificates and logs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_a_certificate_for_servers_is_refused(pem: TrustRoot, form: str) -> None:
    signer = SIGSTORE.signer(usage=ExtendedKeyUsageOID.SERVER_AUTH)
    refuse(getattr(SIGSTORE, form)(statement(SHA256), signer), pem, "not for code signing")


@pytest.mark.parametrize("years", [-5, 20])
def test_a_certificate_outside_of_its_authorities_validity_is_refused(pem: TrustRoot, years: int) -> None:
    signer = SIGSTORE.signer(issued=ISSUED + timedelta(days=365 * years))
    refuse(SIGSTORE.envelope(statement(SHA256), signer), pem, "not issued by an authority")


@pytest.mark.parametrize("form", ["envelope", "bundle"])
@pytest.mark.parametrize("signer", [SIGSTORE.signer(logged=False), SIGSTORE.signer(ct=Log())])
def test_a_certificate_that_no_log_knows_is_refused(root: TrustRoot, form: str, signer: Any) -> None:
    refuse(getattr(SIGSTORE, form)(statement(SHA256), signer), root, "certificate transparency log cannot be verified")


@pytest.mark.parametrize("seconds", [-1, 601])
def test_a_signature_outside_of_the_certificates_validity_is_refused(root: TrustRoot, seconds: int) -> None:
    document = SIGSTORE.bundle(statement(SHA256), at=ISSUED + timedelta(seconds=seconds))
    refuse(document, root, "the Sigstore bundle cannot be verified")


def test_the_entry_of_another_attestation_is_refused(root: TrustRoot) -> None:
    signer = SIGSTORE.signer()
    document, other = (SIGSTORE.bundle(statement(one * 32), signer) for one in ("ab", "cd"))
    document["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    refuse(document, root, "log entry payload hash does not match")


def test_a_log_that_is_not_in_the_trust_root_is_refused(root: TrustRoot) -> None:
    refuse(SIGSTORE.bundle(statement(SHA256), log=Log()), root, "invalid log entry")


def test_members_given_twice_do_not_split_the_readers(root: TrustRoot) -> None:
    text = json.dumps(SIGSTORE.bundle(statement(SHA256)))
    other = b64(json.dumps(statement("cd" * 32)).encode())
    for twice in (
        text.replace('"payload": ', f'"payload": "{other}", "payload": '),
        text.replace('"signatures": [', f'"payload": "{other}", "signatures": ['),
    ):
        assert outcome(twice.encode(), root) in {SHA256, Exit.INTEGRITY}


# --- Statements -------------------------------------------------------------------------------------------------------


def _claiming(**changes: Any) -> dict[str, Any]:
    predicate = statement(SHA256)["predicate"]
    source = predicate["invocation"]["configSource"]
    predicate["builder"]["id"] = changes.get("builder", predicate["builder"]["id"])
    source["uri"] = changes.get("uri", source["uri"])
    source["digest"] = changes.get("digest", source["digest"])
    return statement(SHA256, predicate=predicate)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (statement(SHA256, predicateType="https://slsa.dev/provenance/v1"), "and https://slsa.dev/provenance/v0.2 is expected"),
        (statement(SHA256, _type="https://example.com/Statement"), "https://example.com/Statement"),
        (statement(SHA256, predicate={}), "not SLSA provenance"),
        (_claiming(builder="https://evil.test"), "statement's builder is https://evil.test"),
        (_claiming(uri=f"git+{SOURCE}@refs/tags/v1.13.0"), "statement's source is"),
        (_claiming(digest={"sha1": "0" * 40}), "statement's commit is"),
        (_claiming(digest={}), "statement's commit is"),
        (statement(SHA256, subject=[]), "about one tarball, and is about 0"),
        (statement(SHA256, subject=[{"name": name, "digest": {}} for name in "ab"]), "about one tarball, and is about 2"),
        (statement("zz"), "no SHA-256 digest of crds.tar.gz"),
        (statement(SHA256, subject=[{"name": "crds.tar.gz", "digest": {"sha512": "00"}}]), "no SHA-256 digest"),
        ([], "not SLSA provenance"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["envelope", "bundle"])
def test_another_statement_is_refused(root: TrustRoot, form: str, payload: Any, text: str) -> None:
    refuse(getattr(SIGSTORE, form)(payload), root, text)


def test_another_payload_type_is_refused(root: TrustRoot) -> None:
    document = SIGSTORE.envelope(statement(SHA256), payload_type="text/plain")
    refuse(document, root, "of type text/plain")


def test_the_tarball_is_found_among_other_subjects(root: TrustRoot) -> None:
    subjects = [{"name": "sbom.tar.gz", "digest": {"sha256": "cd" * 32}}, *statement(SHA256.upper())["subject"]]
    assert verify(SIGSTORE.envelope(statement("", subject=subjects)), root).subject == ("crds.tar.gz", SHA256)


# --- Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"mediaType":' + b"[" * 100_000,
        b'{"payloadType":"a"}',
    ],
)
def test_a_file_without_an_attestation_is_refused(data: bytes) -> None:
    with pytest.raises(CRDsError, match="neither a DSSE envelope") as caught:
        parse_attestation(data)
    assert caught.value.exit == Exit.INTEGRITY


def test_two_attestations_in_a_file_are_refused() -> None:
    line = json.dumps(SIGSTORE.envelope(statement(SHA256))).encode()
    assert parse_attestation(line + b"\n").signature
    with pytest.raises(CRDsError, match="has 2 attestations"):
        parse_attestation(line + b"\n" + line)


def test_a_large_file_is_refused() -> None:
    with pytest.raises(CRDsError, match="larger than") as caught:
        parse_attestation(b" " * (MAX_BYTES + 1))
    assert caught.value.exit == Exit.LIMIT


def test_two_signatures_are_refused(root: TrustRoot) -> None:
    document = SIGSTORE.envelope(statement(SHA256))
    document["signatures"] *= 2
    refuse(document, root, "the envelope has 2 signatures")


def test_a_payload_is_not_read_before_its_signature_holds(root: TrustRoot) -> None:
    document = SIGSTORE.envelope(statement(SHA256))
    document["payload"] = b64(base64.b64decode(document["payload"]).replace(SHA256.encode(), b"cd" * 32))
    refuse(document, root, "the signature does not belong to the statement")
