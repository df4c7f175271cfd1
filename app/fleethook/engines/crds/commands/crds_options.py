"""Options, output and exit codes of the commands of ``fleethook crds``, values of options, and fetches."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import click

from fleethook.cli.command_line import Option, raise_at_interrupt
from fleethook.cli.inputs.manifests import find_unused, read_objects
from fleethook.cli.inputs.objects_with_changes import warn_about
from fleethook.cli.options import Output
from fleethook.cli.output.text_output import show_download, write, write_error, write_json
from fleethook.engines.crds.cache.tarball_cache import Cache, find_data_directory
from fleethook.engines.crds.cache_or_download import Fetched, fetch
from fleethook.engines.crds.instance.karmada_release import build_release_url, is_release, parse_release
from fleethook.engines.crds.instance.source_and_secrets import SelectedSource, TarballSource, select_source
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.model.crd_tarball import KARMADA, SHA256_FORM, Policy


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


def show(output: Output, lines: Iterable[str], document: Any) -> None:
    """Print a result to standard output, as lines of text or as JSON."""
    if output is Output.JSON:
        write_json(document, indent=None)
    else:
        write(*lines)


def keep_data_dir(
    data_dir: Annotated[
        Path | None,
        Option(help="Data directory of the cache (default: that of the user; for the controller /var/lib/karmada)."),
    ] = None,
) -> None:
    """Keep the option of all commands for `open_cache`."""
    click.get_current_context().obj = data_dir


Follow = Annotated[
    bool, Option("--follow-instance", help="Prefer the release of the instance's images to the operator's.")
]
SHA256 = Annotated[str, Option(help="Expected SHA-256 digest of the tarball.")]
Proxy = Annotated[str, Option(help="URL of a proxy; takes precedence over those of the environment.")]
CA = Annotated[Path | None, Option(help="PEM file of certificate authorities to trust instead of the system's.")]
Stale = Annotated[
    bool, Option("--stale-if-error", help="With policy Always, fall back to the cached tarball if the download fails.")
]
Strict = Annotated[bool, Option("--strict", help="Treat warnings as errors.")]
NoEnvProxy = Annotated[bool, Option("--no-env-proxy", help="Ignore proxies of the environment, such as HTTPS_PROXY.")]


class DownloadOptions(NamedTuple):
    """Options of commands that download a tarball (`fleethook.cli.command_line`)."""

    version: Annotated[
        str | None, Option(help="Release of the tarball, such as v1.18.0; with --karmada the operator's own release.")
    ] = None
    follow_instance: Follow = False
    policy: Annotated[Policy | None, Option(help="Download policy (default: the manifest's).")] = None
    sha256: SHA256 = ""
    proxy: Proxy = ""
    ca: CA = None
    mirror: Annotated[list[str] | None, Option(help="URL to try if the first one fails; may be repeated.")] = None
    strict: Strict = False
    no_env_proxy: NoEnvProxy = False


_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


def select_sources(url: str | None, karmada: list[Path] | None, options: DownloadOptions) -> Iterator[SelectedSource]:
    """Yield the sources of a command's tarballs: a URL, a release, or the instances in manifests.

    Raises:
        CRDsError: USAGE for missing or contradictory arguments, and for an invalid instance.
    """
    version, strict = options.version, options.strict
    if karmada:
        if url is not None:
            raise CRDsError(Exit.USAGE, "give a URL or --karmada, not both")
        documents = [document for document in read_objects(karmada) if document.object["kind"] == KARMADA.kind]
        if version:
            parse_release(version)
        if not documents:
            raise CRDsError(Exit.USAGE, f"there is no {KARMADA.kind} in {', '.join(map(str, karmada))}")
        for unused in find_unused(karmada, {document.source for document in documents}, KARMADA.kind):
            raise CRDsError(Exit.USAGE, str(unused))
        warn_about(documents, {KARMADA})
        for document in documents:
            yield select_source(
                document.object, version=version or "", follow_instance=options.follow_instance, strict=strict
            )
    elif url is not None:
        yield SelectedSource(TarballSource(url), Policy.IF_NOT_PRESENT)
    elif version is not None:
        yield SelectedSource(TarballSource(build_release_url(check_version(version))), Policy.IF_NOT_PRESENT)
    else:
        raise CRDsError(Exit.USAGE, "give a URL, --karmada FILE or --version RELEASE")


def open_cache(default: Path | None = None) -> Cache:
    """Return the cache below the directory of --data-dir, by default below another one or that of the user."""
    return Cache(click.get_current_context().find_object(Path) or default or find_data_directory())


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


_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_NUMBER: Final = re.compile(r"(\d{1,15})\s*([A-Za-z]*)", re.ASCII)


def parse_age(text: str) -> int:
    """Return an age in seconds; raises ValueError."""
    return _parse(text, _SECONDS, "an age such as 30d or 12h")


def parse_size(text: str) -> int:
    """Return a size in bytes; raises ValueError."""
    return _parse(text, _BYTES, "a size such as 200MiB")


def _parse(text: str, units: dict[str, int], form: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not {form}")
    return int(match[1]) * unit


def fetch_chosen(
    kept: Cache, chosen: SelectedSource, options: DownloadOptions, *, stale_if_error: bool = False
) -> Fetched:
    """Fetch a tarball with the options of a command, which take precedence over the source, and print its warnings.

    Raises:
        CRDsError: As `fleethook.engines.crds.cache_or_download.fetch`; USAGE if only a controller reads the tarball.
    """
    warn(chosen.warnings)
    check_reach(chosen)
    changes: dict[str, Any] = {
        "sha256": check_sha256(options.sha256), "proxy_url": options.proxy, "mirrors": tuple(options.mirror or ()),
        "ca_pem": b"" if options.ca is None else read_file(options.ca),
    }  # fmt: skip
    source = chosen.source._replace(**{name: value for name, value in changes.items() if value})
    with show_download(redact(source.url)) as report:
        fetched = fetch(
            kept, source, options.policy or chosen.policy, progress=report, stale_if_error=stale_if_error,
            strict=options.strict, env_proxies=not options.no_env_proxy,
        )  # fmt: skip
    warn(fetched.warnings)
    return fetched


def check_reach(chosen: SelectedSource) -> None:
    """Raise CRDsError USAGE for a tarball that only a controller in the cluster can read."""
    secrets = sorted({name for name in chosen.references if name})
    if chosen.local is not None:
        text = f"the tarball is at {chosen.source.url}, which only a controller reads: give the file to `crds fetch`"
        raise CRDsError(Exit.USAGE, text)
    if secrets:
        raise CRDsError(Exit.USAGE, f"the tarball needs the Secret {', '.join(secrets)}, which only a controller reads")


def read_file(path: Path) -> bytes:
    """Return the content of a file; raises CRDsError USAGE."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CRDsError(Exit.USAGE, f"{path}: {error.strerror}") from None
