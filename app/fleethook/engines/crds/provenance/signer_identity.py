"""Reads the workflow that Fulcio wrote into a certificate, and compares it with the expected one.

The extensions are those of Fulcio's ``docs/oid-info.md``. All values are DER UTF8Strings.
"""

import re
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat import asn1

from fleethook.engines.crds.crds_errors import CRDsError, Exit

ISSUER: Final = "https://token.actions.githubusercontent.com"
BUILDER: Final = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/generator_generic_slsa3.yml"
SOURCE: Final = "github.com/karmada-io/karmada"

_FULCIO: Final = "1.3.6.1.4.1.57264.1."
# The workflows of slsa-github-generator are trusted at releases only, as slsa-verifier does.
_RELEASE: Final = re.compile(r"@refs/tags/v\d+\.\d+\.\d+", re.ASCII)


class Expected(NamedTuple):
    """The identity that an attestation must have."""

    source: str = SOURCE
    """Repository, with or without ``https://``."""
    tag: str = ""
    """Tag of the repository; ``""`` for any ref."""
    builder: str = BUILDER
    """URI of the workflow that signs; without ``@`` any of its releases."""

    @property
    def source_uri(self) -> str:
        """The repository in the form of certificates."""
        return f"https://{self.source.removeprefix('https://').rstrip('/')}"


class Identity(NamedTuple):
    """The workflow run that a certificate was issued to."""

    issuer: str
    builder: str
    """URI of the workflow that signs, with its ref."""
    source: str
    """URI of the repository."""
    ref: str
    commit: str


def read_identity(certificate: x509.Certificate) -> Identity:
    """Return the identity in a Fulcio certificate; raises CRDsError INTEGRITY if a part is missing or malformed."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        # 8 is the issuer, 12 the source repository, 13 its digest (a commit), 14 its ref.
        issuer, source, commit, ref = (_read_extension(certificate, number) for number in (8, 12, 13, 14))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError) as error:
        text = f"the certificate does not name a GitHub workflow as Fulcio's certificates do: {error}"
        raise CRDsError(Exit.INTEGRITY, text) from None
    if len(uris) != 1 or len(list(names)) != 1:
        raise CRDsError(Exit.INTEGRITY, "the certificate must have one subject alternative name, the workflow's URI")
    return Identity(issuer, uris[0], source, ref, commit)


def check_identity(identity: Identity, expected: Expected) -> None:
    """Compare an identity with the expected one; raises CRDsError INTEGRITY for the first difference."""
    wanted_builder = expected.builder if "@" in expected.builder else f"{expected.builder}@refs/tags/vX.Y.Z"
    rows = [
        ("issuer", identity.issuer, ISSUER, identity.issuer == ISSUER),
        ("builder", identity.builder, wanted_builder, _is_builder(identity.builder, expected.builder)),
        ("source repository", identity.source, expected.source_uri, identity.source == expected.source_uri),
    ]
    if expected.tag:
        ref = f"refs/tags/{expected.tag}"
        rows.append(("source ref", identity.ref, ref, identity.ref == ref))
    for name, found, wanted, equal in rows:
        if not equal:
            raise CRDsError(Exit.INTEGRITY, f"the certificate's {name} is {found}, and {wanted} is expected")


def _is_builder(found: str, wanted: str) -> bool:
    if "@" in wanted:
        return found == wanted
    return found.startswith(wanted) and _RELEASE.fullmatch(found[len(wanted) :]) is not None


def _read_extension(certificate: x509.Certificate, number: int) -> str:
    extension = certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier(f"{_FULCIO}{number}")).value
    if not isinstance(extension, x509.UnrecognizedExtension):
        raise ValueError(f"extension {_FULCIO}{number} is not a text")  # noqa: TRY004 - the caller's kind of error
    return asn1.decode_der(str, extension.value)
