"""The release, the instance and the API server that the commands `render`, `apply` and `diff` use."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

from fleethook.cli.inputs.kubeconfig import Target
from fleethook.cli.inputs.manifests import read_objects
from fleethook.cli.inputs.sources import warn_about
from fleethook.cli.output.text_output import Style
from fleethook.cli.parameters import Option
from fleethook.engines.crds.apply.crd_apply import CRDChange
from fleethook.engines.crds.apply.crd_patches import Patch, build_patches, build_values, find_foreign_webhooks
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import Tree
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_options import (
    check_sha256,
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

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection


def format_changes(changes: Sequence[CRDChange]) -> list[str]:
    """Return differences as lines of text."""
    return [line for change in changes for line in change.format_lines()] or ["no differences"]


async def connect(stack: contextlib.AsyncExitStack, target: Target) -> "Connection":
    """Return a connection that ``stack`` closes; raises CRDsError USAGE for unusable credentials."""
    from fleethook.cluster.api_errors import UnreachableError  # noqa: PLC0415 - see fleethook.cluster

    try:
        return await stack.enter_async_context(target.connect())
    except UnreachableError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None


KarmadaOption = Annotated[
    Path | None,
    Option(
        "--karmada",
        "--filename",
        "-f",
        help="Manifest of one Karmada instance, for its crdTarball, name and namespace; '-' for standard input.",
    ),
]
TarballOption = Annotated[
    Path | None, Option(help="Local tarball to use instead of a download; the cache is not used.")
]
NameOption = Annotated[str, Option(help="Name of the instance, part of its webhook's name (default: the manifest's).")]
NamespaceOption = Annotated[
    str, Option("--namespace", "-n", help="Namespace of the instance (default: the manifest's).")
]
CAFileOption = Annotated[Path | None, Option(help="PEM certificates of the instance's CA, to trust its webhook.")]


class ReleaseOptions(NamedTuple):
    """Options of commands about a tarball, its download, and its instance (`fleethook.cli.parameters`)."""

    data_dir: option.DataDir = None
    url: option.URL = None
    karmada: KarmadaOption = None
    version: option.Version = None
    tarball: TarballOption = None
    follow_instance: option.Follow = False
    policy: option.DownloadPolicy = None
    sha256: option.SHA256 = ""
    proxy: option.Proxy = ""
    ca: option.CA = None
    mirror: option.Mirror = None
    offline: option.Offline = False
    strict: option.Strict = False
    normalize_dot: option.NormalizeDot = False
    no_env_proxy: option.NoEnvProxy = False
    progress: option.Progress = Style.AUTO
    name: NameOption = ""
    namespace: NamespaceOption = ""
    ca_file: CAFileOption = None

    def show_progress(self, *, shown: bool) -> Self:
        """Return these options, without progress unless ``shown``. Programs read the JSON output, and need none."""
        return self if shown else self._replace(progress=Style.NONE)


def read_release(wanted: ReleaseOptions) -> tuple[Tree, list[Patch]]:
    """Return the release that is wanted, and its patches for the instance; raises CRDsError."""
    wanted = wanted._replace(sha256=check_sha256(wanted.sha256))
    instance = None if wanted.karmada is None else _read_manifest(wanted.karmada)
    metadata = as_object(as_object(instance).get("metadata"))
    # First, since it needs no network.
    values = build_values(
        name=wanted.name or metadata.get("name", ""),
        namespace=wanted.namespace or metadata.get("namespace", ""),
        ca_pem=None if wanted.ca_file is None else read_file(wanted.ca_file),
    )
    tree = _read_tree(wanted, instance)
    return tree, build_instance_patches(tree, values)


def build_instance_patches(tree: Tree, values: Mapping[str, str]) -> list[Patch]:
    """Return the patches for an instance, and warn about those for another one; raises CRDsError."""
    patches = build_patches(tree, values)
    warn(find_foreign_webhooks(patches, values).values())
    return patches


def read_tree(wanted: ReleaseOptions) -> Tree:
    """Return the release that is wanted, for no instance; raises CRDsError."""
    wanted = wanted._replace(sha256=check_sha256(wanted.sha256))
    return _read_tree(wanted, None if wanted.karmada is None else _read_manifest(wanted.karmada))


def read_instance_tree(wanted: ReleaseOptions, karmada: JSONObject) -> Tree:
    """Return the release of the options, or else the one that an instance names; raises CRDsError."""
    elsewhere = wanted.url is not None or wanted.tarball is not None
    return _read_tree(wanted._replace(sha256=check_sha256(wanted.sha256)), None if elsewhere else karmada)


def _read_tree(wanted: ReleaseOptions, instance: JSONObject | None) -> Tree:
    if wanted.tarball is not None:
        return _read_tarball(wanted.tarball, wanted)
    return _fetch_tree(open_cache(wanted.data_dir), _select_source(wanted, instance), wanted)


def _read_manifest(manifest: Path) -> JSONObject:
    found = [one for one in read_objects([manifest]) if one.object["kind"] == KARMADA.kind]
    if len(found) != 1:
        raise CRDsError(Exit.USAGE, f"{manifest} must have one {KARMADA.kind}, and has {len(found)}")
    warn_about(found, {KARMADA})
    return found[0].object


def _select_source(wanted: ReleaseOptions, instance: JSONObject | None) -> SelectedSource:
    if instance is None:
        (chosen,) = select_sources(wanted.url, None, wanted.version, follow_instance=False, strict=wanted.strict)
        return chosen
    if wanted.url is not None:
        raise CRDsError(Exit.USAGE, "give a URL or --karmada, not both")
    version, follow = wanted.version or "", wanted.follow_instance
    return select_source(instance, version=version, follow_instance=follow, strict=wanted.strict)


def _fetch_tree(kept: Cache, chosen: SelectedSource, wanted: ReleaseOptions) -> Tree:
    fetched = fetch_chosen(
        kept, chosen, sha256=wanted.sha256, proxy=wanted.proxy, ca=wanted.ca, mirror=wanted.mirror,
        policy=wanted.policy, offline=wanted.offline, progress=wanted.progress, strict=wanted.strict,
        normalize_dot=wanted.normalize_dot, env_proxies=not wanted.no_env_proxy,
    )  # fmt: skip
    with kept.reading(fetched.key):
        found = kept.tarball(fetched.key)
    if found is None or found[0].record.sha256 != fetched.sha256:
        raise CRDsError(Exit.INTEGRITY, f"another process changed {fetched.path} meanwhile: run the command again")
    return archive.read_tree(found[1], normalize_dot=found[0].record.normalize_dot)[1]


def _read_tarball(tarball: Path, wanted: ReleaseOptions) -> Tree:
    if wanted.url is not None or wanted.version is not None:
        raise CRDsError(Exit.USAGE, "give --tarball, or a URL or --version, not both")
    manifest, tree = archive.read_tree(tarball, strict=wanted.strict, normalize_dot=wanted.normalize_dot)
    if wanted.sha256 and manifest.sha256 != wanted.sha256:
        raise CRDsError(Exit.INTEGRITY, f"{tarball} has digest {manifest.sha256}, and {wanted.sha256} is expected")
    warn(manifest.warnings)
    return tree
