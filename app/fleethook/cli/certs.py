"""``fleethook certs``: create and show serving certificates."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cryptography.hazmat.primitives import hashes

from fleethook.cli.command_line import Group
from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.options import TextOutput
from fleethook.cli.output.text_output import write, write_json
from fleethook.cli.parameters import Option
from fleethook.cluster.certificates.certificate_authority import find_renewal_time, list_names
from fleethook.cluster.certificates.certificate_files import (
    CertificateError,
    Inspected,
    InspectionError,
    ensure_certificates,
    inspect_directory,
)
from fleethook.model.formats.text import describe_os_error

_Directory = Annotated[Path, Option("--cert-dir", help="Directory of tls.crt, tls.key and ca.crt.")]


_Output = Annotated[TextOutput, Option(help="Output format.")]


def issue(
    cert_dir: _Directory = Path("certs"),
    name: Annotated[list[str] | None, Option(help="DNS name or IP address of the server; may be repeated.")] = None,
    output: _Output = TextOutput.TEXT,
) -> None:
    """Create a CA and a serving certificate, or renew the certificate if it is due; then show both.

    Valid certificates stay unchanged. Give --name for each name that clients use. An apiserver calls a Service as
    SERVICE.NAMESPACE.svc. A directory without ca.key is managed by another program, for example cert-manager, and is
    never changed.

    Exit codes: 0 success; 1 clients would refuse the certificates; 2 a file cannot be read or written, or a
    certificate without ca.key has problems or lacks a name.
    """
    names = name or ["localhost", "127.0.0.1", "::1"]
    try:
        ensure_certificates(cert_dir, names=names, now=datetime.now(UTC))
    except CertificateError as error:
        fail(str(error))
    except OSError as error:
        fail(describe_os_error(error))
    inspected = _inspect(cert_dir, names if name else [])
    problems = [problem for one in inspected for problem in one.problems]
    if problems and not (cert_dir / "ca.key").exists():
        fail(
            f"{cert_dir / 'tls.crt'}: {problems[0]}. This command cannot replace it without ca.key: renew it with the "
            "program that has its CA, or give a different --cert-dir"
        )
    _print(inspected, output)


def show(
    cert_dir: _Directory = Path("certs"),
    name: Annotated[list[str] | None, Option(help="DNS name or IP address that clients use; may be repeated.")] = None,
    output: _Output = TextOutput.TEXT,
) -> None:
    """Show the certificates of a directory: subject, issuer, names, validity, renewal, and problems.

    Problems are reasons why clients refuse a certificate, or why the server cannot use it: a wrong key, a CA that has
    not signed it, its time, a missing name, or a key that other users can read.

    Exit codes: 0 success; 1 problems; 2 no certificates, or a file cannot be read.
    """
    _print(_inspect(cert_dir, name or []), output)


def _inspect(directory: Path, names: Sequence[str]) -> list[Inspected]:
    try:
        found = inspect_directory(directory, names=names, now=datetime.now(UTC))
    except InspectionError as error:
        fail(str(error))
    except OSError as error:
        fail(describe_os_error(error))
    if not found:
        fail(f"{directory} has neither tls.crt nor ca.crt: create them with `fleethook certs issue`")
    return found


def _print(inspected: Sequence[Inspected], output: TextOutput) -> None:
    """Print certificates, and exit with 1 if one has a problem."""
    rows = [_describe(one) for one in inspected]
    if output is TextOutput.JSON:
        write_json(rows)
    else:
        for row in rows:
            _print_row(row)
    if any(one.problems for one in inspected):
        raise SystemExit(CHECK_FAILED)


def _print_row(row: dict[str, Any]) -> None:
    write(f"{row['file']}")
    for member in ("subject", "issuer", "names", "notBefore", "notAfter", "renewal", "sha256"):
        value = row[member]
        text = ", ".join(value) if isinstance(value, list) else value
        if text:
            write(f"  {member + ':':<11}{text}")
    for problem in row["problems"]:
        write(f"  {'problem:':<11}{problem}")


def _describe(inspected: Inspected) -> dict[str, Any]:
    certificate = inspected.certificate
    return {
        "file": str(inspected.file),
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "names": sorted(list_names(certificate)),
        "notBefore": certificate.not_valid_before_utc.isoformat(),
        "notAfter": certificate.not_valid_after_utc.isoformat(),
        "renewal": find_renewal_time(certificate).isoformat(),
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        "problems": list(inspected.problems),
    }


certs = Group("Create and show serving certificates.", {"issue": issue, "show": show})
