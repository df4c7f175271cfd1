"""Options, output and exit codes of several commands of ``fleethook crds``, with fetches and ``--provenance``."""

import contextlib
import errno
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from fleethook.cli.exit_codes import raise_at_interrupt
from fleethook.cli.inputs.manifests import find_unused, read_objects
from fleethook.cli.inputs.sources import warn_about
from fleethook.cli.options import TextOutput
from fleethook.cli.output.text_output import Style, show_download, write, write_error, write_json
from fleethook.cli.parameters import Argument, Option, read_parameter
from fleethook.engines.crds.cache.cache_layout import find_data_directory
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import read_regular
from fleethook.engines.crds.fetch import Fetched, fetch
from fleethook.engines.crds.instance.karmada_instance import build_release_url, is_release, parse_release
from fleethook.engines.crds.instance.source_selection import SelectedSource, select_source
from fleethook.engines.crds.provenance.attestation import BUILDER, MAX_BYTES, SOURCE, Expected, parse_attestation
from fleethook.engines.crds.provenance.provenance_checks import Provenance, read_trust_root, verify_attestation
from fleethook.engines.crds.tarball_source import Policy, Source, redact
from fleethook.model.json import JSON
from fleethook.model.operator import KARMADA, SHA256_FORM


@contextlib.contextmanager
def exit_on_error(interrupted: str = "the cache is unchanged") -> Iterator[None]:
    """Print a CRDsError of the block and exit with its code; at Ctrl-C print ``interrupted`` and exit 130."""
    raise_at_interrupt()
    try:
        yield
    except CRDsError as error:
        write_error(f"fleethook: {error}")
        raise SystemExit(error.exit) from None
    except KeyboardInterrupt:
        write_error(f"fleethook: interrupted; {interrupted}")
        raise SystemExit(Exit.INTERRUPTED) from None


def warn(warnings: Iterable[str]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        write_error(f"warning: {warning}")


def show(output: TextOutput, lines: Iterable[str], document: Any) -> None:
    """Print a result to standard output, as lines of text or as JSON."""
    if output is TextOutput.JSON:
        write_json(document, indent=None)
    else:
        write(*lines)


DataDir = Annotated[
    Path | None,
    Option(help="Data directory of the cache (default: that of the user; for the controller /var/lib/karmada)."),
]
SHARED: Final = (read_parameter("data_dir", DataDir, {"data_dir": None}),)
"""Options that may precede the name of a command."""
URL = Annotated[str | None, Argument(help="URL of the tarball.")]
Version = Annotated[
    str | None, Option(help="Release of the tarball, such as v1.18.0; with --karmada the operator's own release.")
]
Follow = Annotated[
    bool, Option("--follow-instance", help="Prefer the release of the instance's images to the operator's.")
]
DownloadPolicy = Annotated[Policy | None, Option(help="Download policy (default: the manifest's).")]
SHA256 = Annotated[str, Option(help="Expected SHA-256 digest of the tarball.")]
Proxy = Annotated[str, Option(help="URL of a proxy; takes precedence over those of the environment.")]
CA = Annotated[Path | None, Option(help="PEM file of certificate authorities to trust instead of the system's.")]
Mirror = Annotated[list[str] | None, Option(help="URL to try if the first one fails; may be repeated.")]
Offline = Annotated[bool, Option("--offline", help="Use the cache only, as policy Never does.")]
Stale = Annotated[
    bool,
    Option("--stale-if-error", help="With policy Always, fall back to the cached tarball if the download fails."),
]
Strict = Annotated[bool, Option("--strict", help="Treat warnings as errors.")]
NormalizeDot = Annotated[
    bool,
    Option("--normalize-dot", help="Accept names with a leading ./ (`tar -C directory .`); upstream refuses them."),
]
NoEnvProxy = Annotated[bool, Option("--no-env-proxy", help="Ignore proxies of the environment, such as HTTPS_PROXY.")]
Progress = Annotated[Style, Option(help="Progress display on standard error.")]
ProvenanceFile = Annotated[
    Path | None,
    Option(help="Attestation of the tarball, a file of the release (karmada-crds.intoto.jsonl)."),
]
TrustRoot = Annotated[
    Path | None,
    Option(help="Sigstore trusted_root.json, or PEM certificates of Fulcio, to verify --provenance."),
]
SourceRepository = Annotated[str | None, Option(help=f"Repository that --provenance must name (default: {SOURCE}).")]
SourceTag = Annotated[str | None, Option(help="Tag that --provenance must name, such as v1.18.0 (default: any ref).")]
Builder = Annotated[
    str | None,
    Option(help="Workflow that must have signed --provenance (default: slsa-github-generator's generic one)."),
]


_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


def select_sources(
    url: str | None, karmada: list[Path] | None, version: str | None, *, follow_instance: bool, strict: bool
) -> Iterator[SelectedSource]:
    """Yield the sources of a command's tarballs: a URL, a release, or the instances in manifests.

    Raises:
        CRDsError: USAGE for missing or contradictory arguments, and for an invalid instance.
    """
    if karmada:
        if url is not None:
            raise CRDsError(Exit.USAGE, "give a URL or --karmada, not both")
        found = [one for one in read_objects(karmada) if one.object["kind"] == KARMADA.kind]
        if version:
            parse_release(version)
        if not found:
            raise CRDsError(Exit.USAGE, f"there is no {KARMADA.kind} in {', '.join(map(str, karmada))}")
        for unused in find_unused(karmada, {one.source for one in found}, KARMADA.kind):
            raise CRDsError(Exit.USAGE, str(unused))
        warn_about(found, {KARMADA})
        for one in found:
            yield select_source(one.object, version=version or "", follow_instance=follow_instance, strict=strict)
    elif url is not None:
        yield SelectedSource(Source(url), Policy.IF_NOT_PRESENT)
    elif version is not None:
        yield SelectedSource(Source(build_release_url(check_version(version))), Policy.IF_NOT_PRESENT)
    else:
        raise CRDsError(Exit.USAGE, "give a URL, --karmada FILE or --version RELEASE")


def open_cache(data_dir: Path | None) -> Cache:
    """Return the cache below a data directory, that of the user by default."""
    return Cache(data_dir or find_data_directory())


def check_sha256(text: str) -> str:
    """Return a digest in lowercase, ``""`` for none; raises CRDsError USAGE for any other text."""
    if text and not _SHA256.fullmatch(text):
        hint = "; leave out the prefix sha256:" if text.lower().startswith("sha256:") else ""
        raise CRDsError(Exit.USAGE, f"--sha256 {text}: must be 64 hexadecimal digits, as `crds pin` prints them{hint}")
    return text.lower()


def check_version(text: str) -> str:
    """Return the name of a release; raises CRDsError USAGE for any other text."""
    if is_release(text):
        return text
    hint = f"; did you mean v{text}?" if is_release(f"v{text}") else ""
    raise CRDsError(Exit.USAGE, f"--version {text}: must be a release such as v1.18.0{hint}")


def fetch_chosen(
    kept: Cache,
    chosen: SelectedSource,
    *,
    sha256: str,
    proxy: str,
    ca: Path | None,
    mirror: list[str] | None,
    policy: Policy | None,
    offline: bool,
    progress: Style,
    **rest: JSON,
) -> Fetched:
    """Fetch a tarball with the options of a command, and print its warnings.

    Args:
        kept: The cache.
        chosen: The source; options take precedence over its fields.
        sha256: Value of ``--sha256``.
        proxy: URL of a proxy.
        ca: File of certificate authorities.
        mirror: URLs of mirrors.
        policy: Download policy.
        offline: Use the cache only.
        progress: Style of the progress display.
        rest: More arguments of `fleethook.engines.crds.fetch.fetch`.

    Raises:
        CRDsError: As `fleethook.engines.crds.fetch.fetch`; USAGE also for a tarball that only a controller can read.
    """
    warn(chosen.warnings)
    check_reach(chosen)
    changes: dict[str, Any] = {
        "sha256": sha256, "proxy_url": proxy, "mirrors": tuple(mirror or ()),
        "ca_pem": b"" if ca is None else read_file(ca),
    }  # fmt: skip
    source = chosen.source._replace(**{name: value for name, value in changes.items() if value})
    with show_download(progress, redact(source.url)) as report:
        fetched = fetch(kept, source, Policy.NEVER if offline else policy or chosen.policy, progress=report, **rest)
    warn(fetched.warnings)
    return fetched


def check_reach(chosen: SelectedSource) -> None:
    """Raise CRDsError USAGE for a tarball that only a controller in the cluster can read."""
    secrets = sorted({name for name in chosen.references if name})
    if chosen.non_http is not None:
        text = f"the tarball is at {chosen.source.url}, which is not downloaded: use `crds cache import`"
        raise CRDsError(Exit.USAGE, text)
    if secrets:
        raise CRDsError(Exit.USAGE, f"the tarball needs the Secret {', '.join(secrets)}, which only a controller reads")


def read_file(path: Path) -> bytes:
    """Return the content of a file; raises CRDsError USAGE."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CRDsError(Exit.USAGE, f"{path}: {error.strerror}") from None


class ProvenanceOptions(NamedTuple):
    """Options of commands (`fleethook.cli.parameters`)."""

    provenance: ProvenanceFile = None
    trust_root: TrustRoot = None
    source_repository: SourceRepository = None
    source_tag: SourceTag = None
    builder: Builder = None


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
