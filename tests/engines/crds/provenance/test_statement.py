"""Statements with SLSA provenance, and their agreement with the certificate."""

import json
from typing import Any

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.attestation import Identity
from fleethook.engines.crds.provenance.provenance_checks import Subject, read_subject
from tests.engines.crds.provenance.signing import BUILDER, COMMIT, IN_TOTO, REF, SOURCE, statement

SHA256 = "ab" * 32
IDENTITY = Identity("https://issuer", BUILDER, SOURCE, REF, COMMIT)


def read(document: Any, payload_type: str = IN_TOTO, identity: Identity = IDENTITY) -> Subject:
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_subject(payload_type, payload, identity)


def refusal(document: Any, payload_type: str = IN_TOTO, identity: Identity = IDENTITY) -> str:
    with pytest.raises(CRDsError) as caught:
        read(document, payload_type, identity)
    assert caught.value.exit is Exit.INTEGRITY
    return str(caught.value)


def subject(name: str, **digest: str) -> dict[str, Any]:
    return {"name": name, "digest": digest}


def test_the_subject_is_the_tarball_with_its_digest() -> None:
    assert read(statement(SHA256.upper())) == Subject("crds.tar.gz", SHA256)
    assert read(statement(SHA256, _type="https://in-toto.io/Statement/v1")).sha256 == SHA256


def test_a_single_file_may_have_any_name_and_the_tarball_is_found_among_others() -> None:
    assert read(statement("", subject=[subject("x.tgz", sha256=SHA256)])) == Subject("x.tgz", SHA256)
    others = [subject("a", sha256="0" * 64), subject("crds.tar.gz", sha256=SHA256), subject("b", sha256="1" * 64)]
    assert read(statement("", subject=others)) == Subject("crds.tar.gz", SHA256)


@pytest.mark.parametrize(
    ("subjects", "text"),
    [
        ([], "must be about one tarball, and is about 0"),
        ([subject("a", sha256=SHA256), subject("b", sha256=SHA256)], "must be about one tarball, and is about 2"),
        ([subject("crds.tar.gz", sha256=SHA256)] * 2, "must be about one tarball, and is about 2"),
        ([subject("crds.tar.gz", sha1=SHA256)], "has no SHA-256 digest of crds.tar.gz"),
        ([subject("crds.tar.gz", sha256=SHA256[1:])], "has no SHA-256 digest"),
        ([subject("crds.tar.gz", sha256=f"{SHA256}\n")], "has no SHA-256 digest"),
    ],
)
def test_without_one_definite_tarball_a_statement_is_refused(subjects: Any, text: str) -> None:
    assert text in refusal(statement("", subject=subjects))


@pytest.mark.parametrize(
    ("member", "name"), [("builder", "builder"), ("source", "source"), ("ref", "source"), ("commit", "commit")]
)
def test_a_claim_that_contradicts_the_certificate_is_refused(member: str, name: str) -> None:
    text = refusal(statement(SHA256), identity=IDENTITY._replace(**{member: "other"}))
    assert text.startswith(f"the statement's {name} is ")
    assert "other" in text


def test_a_statement_without_a_commit_is_refused() -> None:
    document = statement(SHA256)
    document["predicate"]["invocation"]["configSource"]["digest"] = {}
    assert refusal(document).startswith("the statement's commit is , but the certificate's ")


@pytest.mark.parametrize(
    "changes", [{"_type": "https://example.org/other"}, {"predicateType": "https://slsa.dev/provenance/v1"}]
)
def test_another_kind_of_statement_is_refused(changes: dict[str, str]) -> None:
    assert "https://slsa.dev/provenance/v0.2 is expected" in refusal(statement(SHA256, **changes))
    assert "https://slsa.dev/provenance/v0.2 is expected" in refusal(statement(SHA256, predicate=None, **changes))


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"\xff", b'{"x":' + b"[" * 100_000, statement(SHA256, predicate={})]
)
def test_a_payload_that_is_no_statement_is_refused(payload: Any) -> None:
    assert refusal(payload).startswith("the statement is not SLSA provenance: ")


def test_another_payload_type_is_refused_before_the_payload_is_read() -> None:
    assert refusal(b"{", payload_type="text/plain").startswith("the payload is of type text/plain, and ")
