"""Parses in-toto statements with SLSA provenance: the tarball's digest, and the claimed builder and source."""

import re
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.identity import Identity
from fleethook.model.operator import SHA256_FORM

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v0.2"
"""The predicate type of slsa-github-generator's generic workflow, in all its releases."""
TARBALL: Final = "crds.tar.gz"
"""Name of the subject, as Karmada's release workflow writes it."""

_STATEMENT_TYPES: Final = frozenset({"https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1"})
_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


class Subject(NamedTuple):
    """A file that a statement is about."""

    name: str
    sha256: str


class _Subject(msgspec.Struct):
    name: str
    digest: dict[str, str]


class _ConfigSource(msgspec.Struct):
    uri: str
    digest: dict[str, str]


class _Invocation(msgspec.Struct, rename="camel"):
    config_source: _ConfigSource


class _Builder(msgspec.Struct):
    id: str


class _Predicate(msgspec.Struct):
    builder: _Builder
    invocation: _Invocation


class _Header(msgspec.Struct, rename="camel"):
    predicate_type: str
    type: str = msgspec.field(name="_type")


class _Statement(msgspec.Struct):
    subject: list[_Subject]
    predicate: _Predicate


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_header: Final = msgspec.json.Decoder(_Header).decode
_decode_statement: Final = msgspec.json.Decoder(_Statement).decode


def read_subject(payload_type: str, payload: bytes, identity: Identity) -> Subject:
    """Return the tarball that a signed statement is about.

    Args:
        payload_type: Payload type of the envelope.
        payload: The statement; the caller has verified its signature.
        identity: Identity of the certificate; the statement must have the same builder, repository, ref and commit.

    Raises:
        CRDsError: INTEGRITY for another kind of statement, for contradictions, and without one definite tarball.
    """
    if payload_type != PAYLOAD_TYPE:
        raise CRDsError(Exit.INTEGRITY, f"the payload is of type {payload_type}, and {PAYLOAD_TYPE} is expected")
    try:
        header = _decode_header(payload)
        if header.type not in _STATEMENT_TYPES or header.predicate_type != PREDICATE_TYPE:
            text = f"the statement is {header.type} with {header.predicate_type}, and {PREDICATE_TYPE} is expected"
            raise CRDsError(Exit.INTEGRITY, text)
        statement = _decode_statement(payload)
    except (ValueError, RecursionError) as error:
        raise CRDsError(Exit.INTEGRITY, f"the statement is not SLSA provenance: {error}") from None
    _check_claims(statement.predicate, identity)
    return _only_tarball(statement.subject)


def _check_claims(predicate: _Predicate, identity: Identity) -> None:
    source = predicate.invocation.config_source
    for name, claimed, signed in (
        ("builder", predicate.builder.id, identity.builder),
        ("source", source.uri, f"git+{identity.source}@{identity.ref}"),
        ("commit", source.digest.get("sha1", ""), identity.commit),
    ):
        if claimed != signed:
            raise CRDsError(Exit.INTEGRITY, f"the statement's {name} is {claimed}, but the certificate's {signed}")


def _only_tarball(subjects: list[_Subject]) -> Subject:
    found = [one for one in subjects if one.name == TARBALL] or subjects
    if len(found) != 1:
        text = f"the statement must be about one tarball, and is about {len(found)}; use karmada-crds.intoto.jsonl"
        raise CRDsError(Exit.INTEGRITY, text)
    sha256 = found[0].digest.get("sha256", "").lower()
    if not _SHA256.fullmatch(sha256):
        raise CRDsError(Exit.INTEGRITY, f"the statement has no SHA-256 digest of {found[0].name}")
    return Subject(found[0].name, sha256)
