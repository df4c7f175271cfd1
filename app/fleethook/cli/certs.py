"""``fleethook certs``: create serving certificates."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cryptography import x509

from fleethook.cli.command_line import Group, Option
from fleethook.cli.exit_codes import fail
from fleethook.cli.output.text_output import write
from fleethook.cluster.certificates.certificate_authority import list_names
from fleethook.cluster.certificates.certificate_files import CertificateError, ensure_certificates
from fleethook.model.formats.text import describe_os_error


def issue(
    cert_dir: Annotated[Path, Option("--cert-dir", help="Directory of tls.crt, tls.key and ca.crt.")] = Path("certs"),
    name: Annotated[list[str] | None, Option(help="DNS name or IP address of the server; may be repeated.")] = None,
) -> None:
    """Create a CA and a serving certificate, or renew the certificate if it is due.

    Valid certificates stay unchanged. Give --name for each name that clients use. An apiserver calls a Service as
    SERVICE.NAMESPACE.svc. A directory without ca.key is managed by another program, for example cert-manager, and is
    never changed.

    Exit codes: 0 success; 2 a file cannot be read or written, or a certificate without ca.key lacks a name.
    """
    try:
        files = ensure_certificates(cert_dir, names=name or ["localhost", "127.0.0.1", "::1"], now=datetime.now(UTC))
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    except CertificateError as error:
        fail(str(error))
    except OSError as error:
        fail(describe_os_error(error))
    except ValueError as error:
        fail(f"cannot read {cert_dir / 'tls.crt'}: {error}")
    present = list_names(certificate)
    missing = [one for one in name or () if not present & {one, f"*.{one.partition('.')[2]}"}]
    if missing:
        fail(
            f"{files.certificate}: it lacks the names {', '.join(missing)}. This command cannot replace it without "
            "ca.key: renew it with the program that has its CA, or give a different --cert-dir"
        )
    write(
        f"{files.certificate}: for {', '.join(sorted(present))}, until {certificate.not_valid_after_utc:%Y-%m-%d}",
        f"{files.authority_certificate}: the CA, for clients to trust",
    )


certs = Group("Create serving certificates.", {"issue": issue})
