"""``--provenance`` of the ``crds`` commands: its options, its files, and the output of the result."""

import errno
from pathlib import Path
from typing import Any, NamedTuple

from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_options import check_sha256
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import read_regular
from fleethook.engines.crds.provenance.attestation import BUILDER, MAX_BYTES, SOURCE, Expected, parse_attestation
from fleethook.engines.crds.provenance.provenance_checks import Provenance, read_trust_root, verify_attestation


class ProvenanceOptions(NamedTuple):
    """Options of commands (`fleethook.cli.parameters`)."""

    provenance: option.ProvenanceFile = None
    trust_root: option.TrustRoot = None
    source_repository: option.SourceRepository = None
    source_tag: option.SourceTag = None
    builder: option.Builder = None


def verify_provenance(wanted: ProvenanceOptions, *, sha256: str, strict: bool = False) -> tuple[Provenance | None, str]:
    """Verify the attestation of ``--provenance``, before any request, and take its digest as the tarball's pin.

    Args:
        wanted: The options.
        sha256: Value of ``--sha256``; ``""`` for none.
        strict: Treat a property that cannot be verified as an error.

    Returns:
        The attestation, None without the flag, and the digest that the tarball must have, ``""`` for any.

    Raises:
        CRDsError: USAGE for flags and files that cannot be used, LIMIT for large ones, INTEGRITY for an attestation
            that does not hold.
    """
    sha256 = check_sha256(sha256)
    found = _read_provenance(wanted, sha256=sha256, strict=strict)
    return found, sha256 if found is None else found.subject.sha256


def _read_provenance(wanted: ProvenanceOptions, *, sha256: str, strict: bool) -> Provenance | None:
    if wanted.provenance is None:
        if any(value is not None for value in wanted):
            text = "--trust-root, --source-repository, --source-tag and --builder require --provenance"
            raise CRDsError(Exit.USAGE, text)
        return None
    if wanted.trust_root is None:
        raise CRDsError(Exit.USAGE, "--provenance requires --trust-root: a trusted_root.json, or Fulcio's certificates")
    root = read_trust_root(wanted.trust_root, _read_limited(wanted.trust_root))
    expected = Expected(wanted.source_repository or SOURCE, wanted.source_tag or "", wanted.builder or BUILDER)
    try:
        found = verify_attestation(parse_attestation(_read_limited(wanted.provenance)), root, expected)
    except CRDsError as error:
        raise CRDsError(error.exit, f"--provenance {wanted.provenance}: {error}") from None
    _check_strictness(found, wanted.provenance, sha256=sha256, strict=strict)
    return found


def _check_strictness(found: Provenance, path: Path, *, sha256: str, strict: bool) -> None:
    if sha256 not in {"", found.subject.sha256}:
        text = f"--provenance {path} is about {found.subject.sha256}, but --sha256 is {sha256}"
        raise CRDsError(Exit.INTEGRITY, text)
    if strict and found.unverified:
        rest = "; ".join(f"{check.name}: {check.detail}" for check in found.unverified)
        raise CRDsError(Exit.INTEGRITY, f"--provenance {path}: with --strict all must be verified, but {rest}")


def format_provenance(found: Provenance | None) -> list[str]:
    """Return the lines for a person; none without an attestation."""
    if found is None:
        return []
    states = {True: "verified", False: "not verified"}
    checks = (f"    {states[check.verified]:<12}  {check.name}: {check.detail}" for check in found.checks)
    return [f"  provenance, {found.form}:", *checks]


def document_provenance(found: Provenance | None) -> dict[str, Any]:
    """Return the member ``provenance`` of JSON output; nothing without an attestation."""
    if found is None:
        return {}
    checks = [check._asdict() for check in found.checks]
    return {"provenance": {"form": found.form, **found.identity._asdict(), "checks": checks}}


def _read_limited(path: Path) -> bytes:
    try:
        return read_regular(path, most=MAX_BYTES, follow=True)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CRDsError(Exit.LIMIT, f"{path}: larger than {MAX_BYTES:,} bytes") from None
        raise CRDsError(Exit.USAGE, f"{path}: {error.strerror}") from None
