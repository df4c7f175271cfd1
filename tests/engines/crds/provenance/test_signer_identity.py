"""The workflow in a certificate, compared with the expected one."""

import pytest
from cryptography import x509

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance import signer_identity as module
from fleethook.engines.crds.provenance.signer_identity import Expected, Identity, check_identity, read_identity
from tests.engines.crds.provenance.signing import BUILDER, COMMIT, REF, SOURCE, Sigstore
from tests.engines.crds.provenance.signing import Identity as Holder

SIGSTORE = Sigstore()
GIVEN = Identity(module.ISSUER, BUILDER, SOURCE, REF, COMMIT)
UNVERSIONED = BUILDER.partition("@")[0]


def test_the_certificate_names_the_workflow() -> None:
    assert read_identity(SIGSTORE.signer().certificate) == GIVEN
    other = SIGSTORE.signer(Holder(source="https://example.org/é")).certificate
    assert read_identity(other).source == "https://example.org/é"


def test_a_certificate_without_a_workflow_is_refused() -> None:
    (authority, _) = x509.load_pem_x509_certificates(SIGSTORE.pem)
    with pytest.raises(CRDsError, match="does not name a GitHub workflow") as caught:
        read_identity(authority)
    assert caught.value.exit is Exit.INTEGRITY


@pytest.mark.parametrize(
    ("expected", "builder"),
    [
        (Expected(), BUILDER),
        (Expected(tag="v1.14.0"), BUILDER),
        (Expected(source=f"{SOURCE}/"), BUILDER),
        (Expected(source="github.com/karmada-io/karmada"), f"{UNVERSIONED}@refs/tags/v10.20.30"),
        (Expected(builder=f"{UNVERSIONED}@refs/heads/main"), f"{UNVERSIONED}@refs/heads/main"),
    ],
)
def test_the_expected_workflow_is_accepted(expected: Expected, builder: str) -> None:
    check_identity(GIVEN._replace(builder=builder), expected)


@pytest.mark.parametrize(
    ("changes", "expected", "name"),
    [
        ({"issuer": "https://accounts.google.com"}, Expected(), "issuer"),
        ({"builder": UNVERSIONED}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}@refs/heads/main"}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}@refs/tags/v1.2.3-rc.1"}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}@refs/tags/v1.2.3\n"}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}x@refs/tags/v1.2.3"}, Expected(), "builder"),
        ({}, Expected(builder=f"{UNVERSIONED}@refs/tags/v9.9.9"), "builder"),
        ({"source": f"{SOURCE}x"}, Expected(), "source repository"),
        ({"source": "http://github.com/karmada-io/karmada"}, Expected(), "source repository"),
        ({}, Expected(tag="v1.14"), "source ref"),
        ({"ref": "refs/heads/v1.14.0"}, Expected(tag="v1.14.0"), "source ref"),
    ],
)
def test_another_workflow_is_refused(changes: dict[str, str], expected: Expected, name: str) -> None:
    with pytest.raises(CRDsError, match=f"^the certificate's {name} is ") as caught:
        check_identity(GIVEN._replace(**changes), expected)
    assert caught.value.exit is Exit.INTEGRITY
