"""``fleethook certs``: create and show serving certificates."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from app.certs.authority import find_renewal_time, list_names
from app.certs.files import CertificateError, ensure_certificates
from app.cli.command_line import Group
from app.cli.exit_codes import fail
from app.cli.json_output import write_json
from app.cli.parameters import Option
from app.cli.terminal import write

_Directory = Annotated[Path, Option("--cert-dir", help="Directory of tls.crt, tls.key and ca.crt.")]


class Output(StrEnum):
    """Output formats of the commands."""

    TEXT = "text"
    JSON = "json"


_Output = Annotated[Output, Option(help="Output format.")]


def issue(
    cert_dir: _Directory = Path("certs"),
    name: Annotated[list[str] | None, Option(help="DNS name or IP address of the server; may be repeated.")] = None,
    output: _Output = Output.TEXT,
) -> None:
    """Create a CA and a serving certificate, or renew the certificate if it is due; then show both.

    Valid certificates stay unchanged. Give --name for each name that clients use. An apiserver calls a Service as
    SERVICE.NAMESPACE.svc.

    Exit codes: 0 success; 2 a file cannot be read or written.
    """
    try:
        ensure_certificates(cert_dir, names=name or ["localhost", "127.0.0.1", "::1"], now=datetime.now(UTC))
    except (CertificateError, OSError) as error:
        fail(str(error))
    _print(cert_dir, output)


def show(cert_dir: _Directory = Path("certs"), output: _Output = Output.TEXT) -> None:
    """Show the certificates of a directory: subject, issuer, names, validity and renewal.

    Exit codes: 0 success; 2 no certificates, or a file cannot be read.
    """
    _print(cert_dir, output)


def _print(directory: Path, output: Output) -> None:
    files = [directory / name for name in ("tls.crt", "ca.crt") if (directory / name).exists()]
    if not files:
        fail(f"{directory} has neither tls.crt nor ca.crt: create them with `fleethook certs issue`")
    rows = [row for file in files for row in _describe(file)]
    if output is Output.JSON:
        write_json(rows)
        return
    for certificate in rows:
        write(f"{certificate['file']}")
        for member in ("subject", "issuer", "names", "notBefore", "notAfter", "renewal", "sha256"):
            value = certificate[member]
            text = ", ".join(value) if isinstance(value, list) else value
            if text:
                write(f"  {member + ':':<11}{text}")


def _describe(file: Path) -> list[dict[str, Any]]:
    """Return the members of each certificate in a PEM file. A bundle has several."""
    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError) as error:
        fail(f"cannot read {file}: {error}")
    return [
        {
            "file": str(file),
            "subject": certificate.subject.rfc4514_string(),
            "issuer": certificate.issuer.rfc4514_string(),
            "names": sorted(list_names(certificate)),
            "notBefore": certificate.not_valid_before_utc.isoformat(),
            "notAfter": certificate.not_valid_after_utc.isoformat(),
            "renewal": find_renewal_time(certificate).isoformat(),
            "sha256": certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        }
        for certificate in certificates
    ]


certs = Group("Create and show serving certificates.", {"issue": issue, "show": show})
