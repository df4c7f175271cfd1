"""``fleethook crds render``: the CRDs of a tarball, patched for an instance."""

from pathlib import Path
from typing import Annotated

from fleethook.cli.command_line import Argument, Option
from fleethook.cli.inputs.manifests import read_objects
from fleethook.cli.inputs.sources import warn_about
from fleethook.cli.options import Output, YamlOutputOption
from fleethook.cli.output.text_output import write_document, write_json
from fleethook.cluster.manifests.kubectl_values import NoAliasDumper, yaml_text
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import Tree
from fleethook.engines.crds.archive.crd_patches import (
    build_patches,
    build_values,
    find_foreign_webhooks,
    render_crds,
)
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.commands.crds_options import (
    DownloadOptions,
    check_sha256,
    exit_on_error,
    fetch_chosen,
    open_cache,
    read_file,
    select_sources,
    warn,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.source_selection import SelectedSource, select_source
from fleethook.model.json import JSONObject, as_object
from fleethook.model.operator import KARMADA


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
    found = [one for one in read_objects([manifest]) if one.object["kind"] == KARMADA.kind]
    if len(found) != 1:
        raise CRDsError(Exit.USAGE, f"{manifest} must have one {KARMADA.kind}, and has {len(found)}")
    warn_about(found, {KARMADA})
    return found[0].object


def _select_source(url: str | None, instance: JSONObject | None, wanted: DownloadOptions) -> SelectedSource:
    if instance is None:
        (chosen,) = select_sources(url, None, wanted)
        return chosen
    if url is not None:
        raise CRDsError(Exit.USAGE, "give a URL or --karmada, not both")
    version, follow = wanted.version or "", wanted.follow_instance
    return select_source(instance, version=version, follow_instance=follow, strict=wanted.strict)


def _fetch_tree(kept: Cache, chosen: SelectedSource, wanted: DownloadOptions) -> Tree:
    fetched = fetch_chosen(kept, chosen, wanted)
    found = kept.tarball(fetched.key)
    if found is None or found[0].record.sha256 != fetched.sha256:
        raise CRDsError(Exit.INTEGRITY, f"another process changed {fetched.path} meanwhile: run the command again")
    return archive.read_tree(found[1])[1]


def _read_tarball(tarball: Path, wanted: DownloadOptions) -> Tree:
    manifest, tree = archive.read_tree(tarball, strict=wanted.strict)
    if wanted.sha256 and manifest.sha256 != wanted.sha256:
        raise CRDsError(Exit.INTEGRITY, f"{tarball} has digest {manifest.sha256}, and {wanted.sha256} is expected")
    warn(manifest.warnings)
    return tree
