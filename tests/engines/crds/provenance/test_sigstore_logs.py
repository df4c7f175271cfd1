"""The logs of a trusted root: proofs of bundles and of certificates."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.sigstore_logs import SigstoreLogs, read_trusted_root
from tests.engines.crds.provenance.signing import IN_TOTO, Log, Sigstore, statement

SIGSTORE = Sigstore()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trusted_root.json"


@pytest.fixture
def logs(path: Path) -> SigstoreLogs:
    path.write_text(json.dumps(SIGSTORE.trusted_root()))
    return read_trusted_root(path)[1]


def test_the_authorities_of_the_file_are_returned(path: Path) -> None:
    path.write_text(json.dumps(SIGSTORE.trusted_root()))
    authorities, _ = read_trusted_root(path)
    assert set(authorities) == set(x509.load_pem_x509_certificates(SIGSTORE.pem))


@pytest.mark.parametrize("text", ["{}", "{", '{"mediaType": "other"}', "[" * 5000])
def test_another_file_is_refused_with_a_short_reason(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(CRDsError, match=f"--trust-root {path}: not a Sigstore trusted_root.json: ") as raised:
        read_trusted_root(path)
    assert raised.value.exit is Exit.USAGE
    assert len(str(raised.value)) < len(str(path)) + 400


def test_a_bundle_of_the_logs_is_proven(logs: SigstoreLogs) -> None:
    signer, payload = SIGSTORE.signer(), statement("ab" * 32)
    logged = logs.verify_bundle(json.dumps(SIGSTORE.bundle(payload, signer)).encode())
    assert (logged.payload_type, json.loads(logged.payload)) == (IN_TOTO, payload)
    assert logged.certificate == signer.certificate


def change_payload(bundle: dict[str, Any]) -> None:
    bundle["dsseEnvelope"]["payload"] = bundle["dsseEnvelope"]["payload"][:-4] + "AAA="


def remove_entry(bundle: dict[str, Any]) -> None:
    bundle["verificationMaterial"]["tlogEntries"] = []


@pytest.mark.parametrize("change", [change_payload, remove_entry, dict.clear])
def test_a_changed_bundle_proves_nothing(logs: SigstoreLogs, change: Any) -> None:
    bundle = copy.deepcopy(SIGSTORE.bundle(statement("ab" * 32)))
    change(bundle)
    with pytest.raises(CRDsError, match="the Sigstore bundle cannot be verified: ") as raised:
        logs.verify_bundle(json.dumps(bundle).encode())
    assert raised.value.exit is Exit.INTEGRITY


def test_an_entry_of_another_log_proves_nothing(logs: SigstoreLogs) -> None:
    bundle = SIGSTORE.bundle(statement("ab" * 32), log=Log())
    with pytest.raises(CRDsError, match="the Sigstore bundle cannot be verified: "):
        logs.verify_bundle(json.dumps(bundle).encode())


def test_a_certificate_proves_its_entry_only_to_the_logs_of_its_authority(logs: SigstoreLogs, tmp_path: Path) -> None:
    issuers = x509.load_pem_x509_certificates(SIGSTORE.pem)
    logs.verify_issued(SIGSTORE.signer().certificate, issuers)
    foreign = Sigstore()
    with pytest.raises(CRDsError, match="the certificate's entry in the certificate transparency log") as raised:
        logs.verify_issued(foreign.signer().certificate, x509.load_pem_x509_certificates(foreign.pem))
    assert raised.value.exit is Exit.INTEGRITY
