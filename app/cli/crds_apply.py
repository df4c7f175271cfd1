"""``fleethook crds render`` and ``apply``: what is in a tarball, patched for an instance, printed or put in place."""

import asyncio
import contextlib
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from app.cli.crds_cache import NormalizeDot
from app.cli.crds_choice import check_reach, check_sha256, chosen_of, read_file
from app.cli.crds_progress import Style, reporting
from app.cli.crds_text import Output, leaving, show, warn
from app.cli.manifests import documents
from app.cli.terminal import write_document, write_json
from app.crds.apply.documents import Tree, read_files
from app.crds.apply.patches import Patch, patches_of, rendered
from app.crds.apply.placeholders import values_of
from app.crds.apply.yaml_text import dump
from app.crds.archive import archive
from app.crds.cache.cache import Cache
from app.crds.download.redaction import redacted
from app.crds.failures import CRDsError, Exit
from app.crds.fetch import fetch
from app.crds.instance.chosen import Chosen, source_of
from app.crds.source import Policy
from app.model.json import JSONObject, as_object
from app.model.operator import KARMADA

if TYPE_CHECKING:
    from app.crds.apply.applying import Applied
    from app.kube.connection import Connection

_HOME_CONFIG: Final = Path("~/.kube/config")

_URL = Annotated[str | None, typer.Argument(help="Address of the tarball.")]
_KARMADA = Annotated[
    Path | None,
    typer.Option(help="Manifest of one Karmada instance: what its crdTarball says, its name and namespace."),
]
_VERSION = Annotated[str | None, typer.Option(help="Release whose tarball it is; with --karmada the operator's own.")]
_TARBALL = Annotated[Path | None, typer.Option(help="A tarball that is here; the cache is left alone.")]
_FOLLOW = Annotated[
    bool, typer.Option("--follow-instance", help="The release of the instance's images before the operator's.")
]
_POLICY = Annotated[Policy | None, typer.Option(help="When the origin is asked (default: as the manifest says).")]
_SHA256 = Annotated[str, typer.Option(help="What the tarball must be.")]
_PROXY = Annotated[str, typer.Option(help="Address of a proxy; wins over the environment's.")]
_CA = Annotated[Path | None, typer.Option(help="PEM authorities that the origin is trusted by, not the system's.")]
_MIRROR = Annotated[list[str] | None, typer.Option(help="Asked when the address fails; may be repeated.")]
_OFFLINE = Annotated[bool, typer.Option("--offline", help="The cache or nothing, as policy Never.")]
_STRICT = Annotated[bool, typer.Option("--strict", help="What is only odd is an error.")]
_NO_ENV_PROXY = Annotated[bool, typer.Option("--no-env-proxy", help="Ignore HTTPS_PROXY and the like.")]
_PROGRESS = Annotated[Style, typer.Option(help="How progress is shown, on standard error.")]
_NAME = Annotated[
    str, typer.Option(help="Name of the instance, after which its webhook is called (default: as the manifest says).")
]
_NAMESPACE = Annotated[str, typer.Option(help="Namespace of the instance (default: as the manifest says).")]
_CA_FILE = Annotated[
    Path | None, typer.Option(help="PEM certificates of the instance's CA, by which its webhook is trusted.")
]


class _Wanted(NamedTuple):
    """Which tarball, how it is brought in, and for which instance."""

    url: str | None
    karmada: Path | None
    version: str | None
    tarball: Path | None
    follow_instance: bool
    policy: Policy | None
    sha256: str
    proxy: str
    ca: Path | None
    mirror: list[str] | None
    offline: bool
    strict: bool
    normalize_dot: bool
    no_env_proxy: bool
    progress: Style
    name: str
    namespace: str
    ca_file: Path | None


class Form(StrEnum):
    """How objects are printed."""

    YAML = "yaml"
    JSON = "json"


def render(
    context: typer.Context,
    url: _URL = None,
    karmada: _KARMADA = None,
    version: _VERSION = None,
    tarball: _TARBALL = None,
    follow_instance: _FOLLOW = False,
    policy: _POLICY = None,
    sha256: _SHA256 = "",
    proxy: _PROXY = "",
    ca: _CA = None,
    mirror: _MIRROR = None,
    offline: _OFFLINE = False,
    strict: _STRICT = False,
    normalize_dot: NormalizeDot = False,
    no_env_proxy: _NO_ENV_PROXY = False,
    progress: _PROGRESS = Style.AUTO,
    name: _NAME = "",
    namespace: _NAMESPACE = "",
    ca_file: _CA_FILE = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print it.")] = Form.YAML,
) -> None:
    """Print the CRDs of a tarball, patched for an instance, in the order in which they are applied.

    Exits as `fetch` does; 2 too where a patch needs --name, --namespace or --ca-file and it is not given, 24 where a
    patch does not fit.
    """
    wanted = _Wanted(
        url, karmada, version, tarball, follow_instance, policy, sha256, proxy, ca, mirror, offline, strict,
        normalize_dot, no_env_proxy, Style.NONE if output is Form.JSON else progress, name, namespace, ca_file,
    )  # fmt: skip
    with leaving():
        tree, patches = _read(context, wanted)
        found = list(rendered(tree.crds, patches).values())
        if output is Form.YAML:
            write_document(dump(found))
        else:
            listed = {"apiVersion": "v1", "kind": "List", "items": found}
            write_json(listed)


def apply(
    context: typer.Context,
    url: _URL = None,
    karmada: _KARMADA = None,
    version: _VERSION = None,
    tarball: _TARBALL = None,
    follow_instance: _FOLLOW = False,
    policy: _POLICY = None,
    sha256: _SHA256 = "",
    proxy: _PROXY = "",
    ca: _CA = None,
    mirror: _MIRROR = None,
    offline: _OFFLINE = False,
    strict: _STRICT = False,
    normalize_dot: NormalizeDot = False,
    no_env_proxy: _NO_ENV_PROXY = False,
    progress: _PROGRESS = Style.AUTO,
    name: _NAME = "",
    namespace: _NAMESPACE = "",
    ca_file: _CA_FILE = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Of the API server of the instance ($KUBECONFIG, then ~/.kube/config).")
    ] = None,
    wait_seconds: Annotated[
        float, typer.Option(min=0, help="How long the CRDs may take to be established; 0 does not wait.")
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Have the server try it; nothing changes.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TEXT,
) -> None:
    """Apply the CRDs of a tarball and its patches to the API server of an instance; none is ever deleted.

    Exits as `fetch` does; 2 too where a patch needs --name, --namespace or --ca-file and it is not given, or the
    kubeconfig cannot be used; 20 too where the server does not answer or a CRD is not established in time, 21 where
    the server refuses. Running it again is safe.
    """
    wanted = _Wanted(
        url, karmada, version, tarball, follow_instance, policy, sha256, proxy, ca, mirror, offline, strict,
        normalize_dot, no_env_proxy, Style.NONE if output is Output.JSON else progress, name, namespace, ca_file,
    )  # fmt: skip
    with leaving("what was applied stays, and running it again is safe"):
        tree, patches = _read(context, wanted)
        target = _Target(_kubeconfig(kubeconfig), dry_run, wait_seconds, output)
        asyncio.run(_apply(target, tree, patches))


# --- What is applied --------------------------------------------------------------------------------------------------


def _read(context: typer.Context, wanted: _Wanted) -> tuple[Tree, list[Patch]]:
    wanted = wanted._replace(sha256=check_sha256(wanted.sha256))
    instance = None if wanted.karmada is None else _instance(wanted.karmada)
    metadata = as_object(as_object(instance).get("metadata"))
    # First, since it needs no network.
    values = values_of(
        name=wanted.name or metadata.get("name", ""),
        namespace=wanted.namespace or metadata.get("namespace", ""),
        ca_pem=None if wanted.ca_file is None else read_file(wanted.ca_file),
    )
    if wanted.tarball is None:
        kept = context.find_object(Cache)
        assert kept is not None, "the group's callback made it"
        tree = _fetched(kept, _chosen(wanted, instance), wanted)
    else:
        tree = _unpacked(wanted.tarball, wanted)
    return tree, patches_of(tree, values)


def _instance(manifest: Path) -> JSONObject:
    found = [one.object for one in documents([manifest]) if one.object["kind"] == KARMADA.kind]
    if len(found) != 1:
        raise CRDsError(Exit.USAGE, f"there must be one {KARMADA.kind} in {manifest}, and there are {len(found)}")
    return found[0]


def _chosen(wanted: _Wanted, instance: JSONObject | None) -> Chosen:
    if instance is None:
        (chosen,) = chosen_of(wanted.url, None, wanted.version, follow_instance=False, strict=wanted.strict)
        return chosen
    if wanted.url is not None:
        raise CRDsError(Exit.USAGE, "give an address or --karmada, not both")
    version, follow = wanted.version or "", wanted.follow_instance
    return source_of(instance, version=version, follow_instance=follow, strict=wanted.strict)


def _fetched(kept: Cache, chosen: Chosen, wanted: _Wanted) -> Tree:
    warn(chosen.warnings)
    check_reach(chosen)
    changes: dict[str, Any] = {
        "sha256": wanted.sha256, "proxy_url": wanted.proxy, "mirrors": tuple(wanted.mirror or ()),
        "ca_pem": b"" if wanted.ca is None else read_file(wanted.ca),
    }  # fmt: skip
    source = chosen.source._replace(**{name: value for name, value in changes.items() if value})
    policy = Policy.NEVER if wanted.offline else wanted.policy or chosen.policy
    env_proxies = not wanted.no_env_proxy
    with reporting(wanted.progress, redacted(source.url)) as report:
        fetched = fetch(
            kept, source, policy, strict=wanted.strict, normalize_dot=wanted.normalize_dot, env_proxies=env_proxies,
            progress=report,
        )  # fmt: skip
    warn(fetched.warnings)
    with kept.reading(fetched.key):
        found = kept.tarball(fetched.key)
    if found is None or found[0].record.sha256 != fetched.sha256:
        raise CRDsError(Exit.INTEGRITY, f"{fetched.path} was changed by somebody else meanwhile: run it again")
    _, files = archive.read_files(found[1], normalize_dot=found[0].record.normalize_dot, again=True)
    return read_files(files)


def _unpacked(tarball: Path, wanted: _Wanted) -> Tree:
    if wanted.url is not None or wanted.version is not None:
        raise CRDsError(Exit.USAGE, "give --tarball or where to get one, not both")
    manifest, files = archive.read_files(tarball, strict=wanted.strict, normalize_dot=wanted.normalize_dot)
    if wanted.sha256 and manifest.sha256 != wanted.sha256:
        raise CRDsError(Exit.INTEGRITY, f"{tarball} is {manifest.sha256}, and {wanted.sha256} is wanted")
    warn(manifest.warnings)
    return read_files(files)


# --- Where it is applied to -------------------------------------------------------------------------------------------


class _Target(NamedTuple):
    kubeconfig: Path
    dry_run: bool
    wait_seconds: float
    output: Output


def _kubeconfig(given: Path | None) -> Path:
    found = given or Path(os.environ.get("KUBECONFIG") or _HOME_CONFIG.expanduser())
    # KUBECONFIG may name several files, of which some may be missing.
    if not any(Path(one).is_file() for one in str(found).split(os.pathsep)):
        told = "" if given else ": give --kubeconfig, or set KUBECONFIG"
        raise CRDsError(Exit.USAGE, f"there is no kubeconfig {found}{told}")
    return found


async def _apply(target: _Target, tree: Tree, patches: list[Patch]) -> None:
    from app.crds.apply.applying import apply as apply_crds  # noqa: PLC0415 - see app.kube
    from app.crds.apply.established import wait_established  # noqa: PLC0415 - as above

    async with contextlib.AsyncExitStack() as stack:
        connection = await _connected(stack, target.kubeconfig)
        applied = await apply_crds(connection, tree.crds, patches, dry_run=target.dry_run)
        show(target.output, map(_line, applied), [one._asdict() for one in applied])
        if target.wait_seconds and not target.dry_run:
            await wait_established(connection, tree.crds, seconds=target.wait_seconds)


async def _connected(stack: contextlib.AsyncExitStack, kubeconfig: Path) -> "Connection":
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube

    try:
        return await stack.enter_async_context(Connection(kubeconfig))
    except Exception as error:  # noqa: BLE001 - what a kubeconfig of an odd shape makes of the client library
        raise CRDsError(Exit.USAGE, f"the kubeconfig {kubeconfig} cannot be used: {error!r}") from None


def _line(one: "Applied") -> str:
    return f"{one.result:<10} {one.name}{'  patched' if one.patched else ''}"
