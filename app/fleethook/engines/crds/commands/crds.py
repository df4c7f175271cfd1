"""``fleethook crds``: fetch, verify and cache CRD tarballs of Karmada."""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

from fleethook.cli.command_line import Argument, CommandGroup, Option
from fleethook.cli.inputs.manifests import read_objects
from fleethook.cli.inputs.objects_with_changes import warn_about
from fleethook.cli.options import Output, TextOutputOption, YamlOutputOption
from fleethook.cli.output.text_output import show_download, write_document, write_json
from fleethook.cluster.manifests.yaml_scalars import NoAliasDumper, yaml_text
from fleethook.engine import CommandSpec
from fleethook.engines.crds.archive import tarball_unpacking
from fleethook.engines.crds.archive.names_content_limits import TarballManifest, Tree, describe
from fleethook.engines.crds.archive.patches_and_ca import (
    build_patches,
    build_values,
    find_foreign_webhooks,
    render_crds,
    render_tree,
)
from fleethook.engines.crds.cache.cache_entry import ListedEntry, is_key
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched, import_file
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_options import (
    DownloadOptions,
    check_sha256,
    exit_on_error,
    fetch_chosen,
    open_cache,
    parse_age,
    parse_size,
    read_file,
    select_sources,
    show,
    warn,
)
from fleethook.engines.crds.download.download_and_mirrors import download
from fleethook.engines.crds.instance.source_and_secrets import SelectedSource, TarballSource, select_source
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.model.crd_tarball import KARMADA
from fleethook.model.json import JSONObject, as_object


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
    options: DownloadOptions = DownloadOptions(),
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
        chosen = list(select_sources(named, karmada, options))
        sha256 = check_sha256(options.sha256)
        kept = open_cache()
        for selected_source in chosen:
            if file is not None:
                warn(selected_source.warnings)
                pinned = selected_source.source._replace(sha256=sha256 or selected_source.source.sha256)
                _print(import_file(kept, pinned, file, strict=options.strict), output)
            else:
                _print(fetch_chosen(kept, selected_source, options, stale_if_error=stale_if_error), output)


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
        try:
            manifest, tree = tarball_unpacking.read_tree(file, strict=strict)
        except CRDsError as error:
            if error.exit is Exit.DISK:  # It names the file.
                raise
            raise CRDsError(error.exit, f"{file}: {error}") from None
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
        source = TarballSource(url, proxy_url=proxy, ca_pem=b"" if ca is None else read_file(ca))
        path = Path(directory, "crds.tar.gz")
        with show_download(redact(url)) as report:
            download(source, path, progress=report)
        manifest = tarball_unpacking.verify(path)
        if output is Output.JSON:
            _print_manifest(manifest, output)
        else:
            warn(manifest.warnings)
            # Standard output has only the digest, for scripts.
            show(output, [manifest.sha256], None)


def _print_manifest(manifest: TarballManifest, output: Output) -> None:
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


_EntryArgument = Annotated[str, Argument(metavar="URL|KEY", help="URL of a tarball, or the key of its entry.")]


def _parse_key(entry: str) -> str:
    return entry if is_key(entry) else TarballSource(entry).key


def _format_line(one: ListedEntry) -> str:
    url = one.record.url if one.record else ""
    return f"{one.key}  {one.state:<8} {one.size:>12,}  {one.asked_at:%Y-%m-%d %H:%M}  {url or one.problem}"


def _build_document(one: ListedEntry) -> dict[str, object]:
    record = one.record
    return {
        "key": one.key, "path": one.path, "state": one.state, "bytes": one.size, "asked_at": one.asked_at,
        "url": record.url if record else "", "sha256": record.sha256 if record else "", "problem": one.problem,
    }  # fmt: skip


def list_entries(output: TextOutputOption = Output.TEXT) -> None:
    """List the entries."""
    with exit_on_error():
        found = open_cache().entries()
        show(output, list(map(_format_line, found)) or ["the cache is empty"], [_build_document(one) for one in found])


def prune(
    older_than: Annotated[
        str | None, Option(help="Age, such as 30d, since the origin last confirmed an entry.")
    ] = None,
    max_size: Annotated[
        str | None, Option(help="Size of the cache, such as 200MiB; the oldest entries beyond it are removed.")
    ] = None,
    keep: Annotated[int, Option(minimum=0, help="Number of newest entries to keep in any case.")] = 0,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the entries without removing them.")] = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Remove entries that are too old, then those that exceed the size; entries in use stay."""
    with exit_on_error():
        try:
            age = None if older_than is None else timedelta(seconds=parse_age(older_than))
            size = None if max_size is None else parse_size(max_size)
        except (ValueError, OverflowError) as error:
            raise CRDsError(Exit.USAGE, str(error)) from None
        if age is None and size is None:
            raise CRDsError(Exit.USAGE, "give --older-than or --max-size: without them no entry is removed")
        gone = open_cache().prune(older_than=age, max_bytes=size, keep=keep, dry_run=dry_run)
        show(output, list(map(_format_line, gone)) or ["nothing to remove"], [_build_document(entry) for entry in gone])


def remove(entry: _EntryArgument) -> None:
    """Remove an entry; exits 10 if there is none."""
    with exit_on_error():
        if not open_cache().remove(_parse_key(entry)):
            raise CRDsError(Exit.NOT_CACHED, f"{entry} is not in the cache")


_CACHE: Final = CommandGroup(
    "List and remove the entries of the cache.", {"ls": list_entries, "prune": prune, "rm": remove}
)


def render(
    *,
    url: Annotated[str | None, Argument(help="URL of the tarball.")] = None,
    karmada: Annotated[
        Path | None,
        Option(
            "--karmada",
            "--filename",
            "-f",
            help="Manifest of one Karmada instance, for its crdTarball, name and namespace; '-' for standard input.",
        ),
    ] = None,
    tarball: Annotated[
        Path | None, Option(help="Local tarball to use instead of a download; the cache is not used.")
    ] = None,
    options: DownloadOptions = DownloadOptions(),
    name: Annotated[
        str, Option(help="Name of the instance, part of its webhook's name (default: the manifest's).")
    ] = "",
    namespace: Annotated[
        str, Option("--namespace", "-n", help="Namespace of the instance (default: the manifest's).")
    ] = "",
    ca_file: Annotated[Path | None, Option(help="PEM certificates of the instance's CA, to trust its webhook.")] = None,
    output: YamlOutputOption = Output.YAML,
) -> None:
    """Print the CRDs of a tarball, patched for an instance, in the order of Karmada's operator.

    Exit codes as of `fetch`; also 2 if a patch needs --name, --namespace or --ca-file, 24 if a patch cannot be merged.
    """
    with exit_on_error():
        options = options._replace(sha256=check_sha256(options.sha256))
        instance = None if karmada is None else _read_manifest(karmada)
        metadata = as_object(as_object(instance).get("metadata"))
        # First, since it needs no network.
        values = build_values(
            name=name or metadata.get("name", ""),
            namespace=namespace or metadata.get("namespace", ""),
            ca_pem=None if ca_file is None else read_file(ca_file),
        )
        if tarball is None:
            tree = _fetch_tree(open_cache(), _select_source(url, instance, options), options)
        elif url is None and options.version is None:
            tree = _read_tarball(tarball, options)
        else:
            raise CRDsError(Exit.USAGE, "give --tarball, or a URL or --version, not both")
        patches = build_patches(tree, values)
        warn(find_foreign_webhooks(patches, values).values())
        found = list(render_crds(tree.crds, patches).values())
        if output is Output.YAML:
            write_document("".join(f"---\n{yaml_text(one, dumper=NoAliasDumper)}" for one in found))
        else:
            write_json({"apiVersion": "v1", "kind": "List", "items": found})


def _read_manifest(manifest: Path) -> JSONObject:
    documents = [document for document in read_objects([manifest]) if document.object["kind"] == KARMADA.kind]
    if len(documents) != 1:
        raise CRDsError(Exit.USAGE, f"{manifest} must have one {KARMADA.kind}, and has {len(documents)}")
    warn_about(documents, {KARMADA})
    return documents[0].object


def _select_source(url: str | None, instance: JSONObject | None, options: DownloadOptions) -> SelectedSource:
    if instance is None:
        (chosen,) = select_sources(url, None, options)
        return chosen
    if url is not None:
        raise CRDsError(Exit.USAGE, "give a URL or --karmada, not both")
    version, follow = options.version or "", options.follow_instance
    return select_source(instance, version=version, follow_instance=follow, strict=options.strict)


def _fetch_tree(kept: Cache, chosen: SelectedSource, options: DownloadOptions) -> Tree:
    fetched = fetch_chosen(kept, chosen, options)
    found = kept.tarball(fetched.key)
    if found is None or found[0].record.sha256 != fetched.sha256:
        raise CRDsError(Exit.INTEGRITY, f"another process changed {fetched.path} meanwhile: run the command again")
    return tarball_unpacking.read_tree(found[1])[1]


def _read_tarball(tarball: Path, options: DownloadOptions) -> Tree:
    manifest, tree = tarball_unpacking.read_tree(tarball, strict=options.strict)
    if options.sha256 and manifest.sha256 != options.sha256:
        raise CRDsError(Exit.INTEGRITY, f"{tarball} has digest {manifest.sha256}, and {options.sha256} is expected")
    warn(manifest.warnings)
    return tree


crds = CommandGroup(
    "Fetch, verify and cache the CRD tarballs of Karmada.",
    {
        "fetch": fetch,
        "verify": verify,
        "pin": pin,
        "cache": _CACHE,
        "render": render,
        "controller": CommandSpec(
            "fleethook.engines.crds.commands.crds_controller:controller",
            "Keep the CRD tarballs of all Karmada objects of a cluster cached, and report that in their status.",
        ),
    },
    option.keep_data_dir,
)
