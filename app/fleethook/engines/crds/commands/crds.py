"""``fleethook crds``: fetch, verify and cache CRD tarballs of Karmada."""

import tempfile
from pathlib import Path
from typing import Annotated

from fleethook.cli.command_line import Argument, Group, Option
from fleethook.cli.options import Output, TextOutputOption
from fleethook.cli.output.text_output import show_download
from fleethook.engine import CommandSpec
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_patches import render_tree
from fleethook.engines.crds.archive.unpacked_tree import Manifest, describe
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_options import (
    DownloadOptions,
    check_sha256,
    exit_on_error,
    fetch_chosen,
    open_cache,
    read_file,
    select_sources,
    show,
    warn,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.download import download
from fleethook.engines.crds.fetch import Fetched, import_file
from fleethook.engines.crds.tarball_source import Source, redact


def fetch(
    *,
    url: Annotated[
        str | None, Argument(metavar="URL|FILE", help="URL of the tarball, or a local tarball to put into the cache.")
    ] = None,
    entry: Annotated[
        str | None,
        Option("--url", help="URL of a local tarball, for its entry (default: that of --karmada or --version)."),
    ] = None,
    karmada: Annotated[
        list[Path] | None,
        Option(
            "--karmada",
            "--filename",
            "-f",
            help="File or directory of Karmada instances, for their crdTarball; '-' for standard input; repeatable.",
        ),
    ] = None,
    wanted: DownloadOptions = DownloadOptions(),
    stale_if_error: option.Stale = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Download a tarball into the cache, verified and unpacked. A local tarball becomes the entry of a URL.

    Exit codes: 0 success; 2 invalid arguments; 10 not cached, and a download is not allowed; 11 another process held
    the lock for too long; 20 network, 21 HTTP status, 22 TLS; 23 digest mismatch; 24 not a CRD tarball; 25 too large;
    26 disk; 130 interrupted.
    """
    with exit_on_error():
        file = None if url is None or "://" in url else Path(url)
        if file is None and entry is not None:
            raise CRDsError(Exit.USAGE, "--url is for a local tarball: give its path")
        named = url if file is None else entry
        chosen = list(select_sources(named, karmada, wanted))
        sha256 = check_sha256(wanted.sha256)
        kept = open_cache()
        for one in chosen:
            if file is not None:
                warn(one.warnings)
                pinned = one.source._replace(sha256=sha256 or one.source.sha256)
                _print(import_file(kept, pinned, file, strict=wanted.strict), output)
            else:
                _print(fetch_chosen(kept, one, wanted, stale_if_error=stale_if_error), output)


def _print(fetched: Fetched, output: Output) -> None:
    document = {
        "result": fetched.result, "key": fetched.key, "path": fetched.path, "sha256": fetched.sha256,
        "bytes": fetched.size, "url": fetched.url, "final_url": fetched.final_url, "etag": fetched.etag,
        "attempts": fetched.attempts, "duration_s": round(fetched.seconds, 3), "warnings": fetched.warnings,
    }  # fmt: skip
    lines = f"{fetched.result} {fetched.path}", f"  sha256:{fetched.sha256} {fetched.size:,} bytes"
    show(output, lines, document)


def verify(
    *,
    file: Annotated[Path, Argument(help="Path of the tarball.")],
    sha256: option.SHA256 = "",
    strict: option.Strict = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Check that a tarball is complete, safe and has CRDs, and whether Karmada's own operator can use it.

    The command unpacks nothing. It exits with 0 even if only the operator cannot use the tarball, unless --strict is
    given.
    """
    with exit_on_error():
        sha256 = check_sha256(sha256)
        manifest, tree = archive.read_tree(file, strict=strict)
        if sha256 and manifest.sha256 != sha256:
            raise CRDsError(Exit.INTEGRITY, f"{file} has digest {manifest.sha256}, and {sha256} is expected")
        render_tree(tree)
        _print_manifest(manifest, output)
        if strict and manifest.operator_problems:
            raise CRDsError(Exit.ARCHIVE, "Karmada's own operator cannot use this tarball")


def pin(
    *,
    url: Annotated[str, Argument(help="Address of the tarball.")],
    proxy: option.Proxy = "",
    ca: option.CA = None,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Download and verify a tarball, and print its digest for --sha256 and httpSource.sha256; keeps no file."""
    with exit_on_error(), tempfile.TemporaryDirectory() as directory:
        source = Source(url, proxy_url=proxy, ca_pem=b"" if ca is None else read_file(ca))
        path = Path(directory, "crds.tar.gz")
        with show_download(redact(url)) as report:
            download(source, path, progress=report)
        manifest = archive.verify(path)
        if output is Output.JSON:
            _print_manifest(manifest, output)
        else:
            warn(manifest.warnings)
            # Standard output has only the digest, for scripts.
            show(output, [manifest.sha256], None)


def _print_manifest(manifest: Manifest, output: Output) -> None:
    warn(manifest.warnings)
    files = {name: file._asdict() for name, file in manifest.files.items()}
    problems, layout = manifest.operator_problems, describe(manifest.files)
    document = {
        "sha256": manifest.sha256, "bytes": manifest.size, "files": files, "layout": layout,
        "warnings": manifest.warnings,
        "operator": {"usable": not problems, "problems": problems},
    }  # fmt: skip
    verdict = "Karmada's operator can use it" if not problems else "Karmada's operator cannot use it:"
    lines = [f"sha256:{manifest.sha256} {manifest.size:,} bytes, {len(files)} files", f"  {layout}", f"  {verdict}"]
    show(output, [*lines, *(f"    {problem}" for problem in problems)], document)


crds = Group(
    "Fetch, verify and cache the CRD tarballs of Karmada.",
    {
        "fetch": fetch,
        "verify": verify,
        "pin": pin,
        "cache": CommandSpec(
            "fleethook.engines.crds.commands.crds_cache:cache", "List and remove the entries of the cache."
        ),
        "render": CommandSpec(
            "fleethook.engines.crds.commands.crds_render:render",
            "Print the CRDs of a tarball, patched for an instance, in the order of Karmada's operator.",
        ),
        "controller": CommandSpec(
            "fleethook.engines.crds.commands.crds_controller:controller",
            "Keep the CRD tarballs of all Karmada objects of a cluster cached, and report that in their status.",
        ),
    },
    option.keep_data_dir,
)
