"""``fleethook crds render``, ``apply`` and ``diff``: the CRDs of a tarball, patched for an instance."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from fleethook.cli.exit_codes import CHECK_FAILED
from fleethook.cli.inputs.kubeconfig import Target, TargetOptions
from fleethook.cli.options import TextOutput, TextOutputOption, YamlOutput, YamlOutputOption
from fleethook.cli.output.text_output import write_document, write_json
from fleethook.cli.parameters import Option
from fleethook.cluster.manifests.kubectl_values import NoAliasDumper, yaml_text
from fleethook.engines.crds.apply.crd_apply import CRDChange, compare_releases
from fleethook.engines.crds.apply.crd_patches import Patch, render_crds
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import Content, Tree
from fleethook.engines.crds.commands.crds_instances import ApplyOptions, apply_release, apply_to_instances, check_names
from fleethook.engines.crds.commands.crds_options import exit_on_error, show
from fleethook.engines.crds.commands.crds_release import (
    ReleaseOptions,
    connect,
    format_changes,
    read_release,
    read_tree,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit

if TYPE_CHECKING:
    from fleethook.engines.crds.apply.crd_apply import Applied


def render(
    wanted: ReleaseOptions,
    *,
    output: YamlOutputOption = YamlOutput.YAML,
) -> None:
    """Print the CRDs of a tarball, patched for an instance, in the order in which they are applied.

    Exit codes as of `fetch`; also 2 if a patch needs --name, --namespace or --ca-file, 24 if a patch cannot be merged.
    """
    wanted = wanted.show_progress(shown=output is not YamlOutput.JSON)
    with exit_on_error():
        tree, patches = read_release(wanted)
        found = list(render_crds(tree.crds, patches).values())
        if output is YamlOutput.YAML:
            write_document("".join(f"---\n{yaml_text(one, dumper=NoAliasDumper)}" for one in found))
        else:
            listed = {"apiVersion": "v1", "kind": "List", "items": found}
            write_json(listed)


def apply(
    wanted: ReleaseOptions,
    *,
    server: TargetOptions = TargetOptions(),
    wait_seconds: Annotated[
        float, Option(minimum=0, help="Seconds to wait for the CRDs to become established; 0 does not wait.")
    ] = 60.0,
    one: Annotated[
        list[str] | None,
        Option(
            "--instance",
            metavar="NAMESPACE/NAME",
            help="Instance in the host cluster; its Secrets name its API server; may be repeated.",
        ),
    ] = None,
    every: Annotated[bool, Option("--all", help="Apply to all instances in the host cluster.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Send dry-run requests only.")] = False,
    force: Annotated[bool, Option("--force", help="Allow dropping versions that objects may be stored in.")] = False,
    output: TextOutputOption = TextOutput.TEXT,
) -> None:
    """Apply the CRDs of a tarball and its patches to the API server of an instance; deletes no CRD.

    --kubeconfig, --context or --in-cluster name the API server of the instance (default: that of kubectl). With
    --instance or --all, they name the host cluster.

    Prints the changes first. Drops a version that objects may be stored in (storedVersions) only with --force, and only
    if the server agrees. A second run is safe.

    Exit codes as of `fetch`; also 2 if a patch needs --name, --namespace or --ca-file, or the kubeconfig cannot be
    used; 20 if the server does not answer or a CRD is not established in time; 21 if it refuses a request.

    With --instance or --all, address, credentials and CA of each API server come from the Secrets that Karmada's
    operator writes in the host cluster. Prints one line per instance; the exit code is the highest of all instances.
    """
    wanted = wanted.show_progress(shown=output is not TextOutput.JSON)
    with exit_on_error("applied CRDs stay; a second run is safe"):
        if one or every:
            check_names(one or (), wanted, every=every)
            options = ApplyOptions(dry_run, force, wait_seconds, output)
            apply_to_instances(wanted, one or (), host=server.find(), options=options)
            return
        if server.is_given:
            server.find()  # Before a download, so that a mistake costs no time.
        tree, patches = read_release(wanted)
        asyncio.run(_apply(server.find(), ApplyOptions(dry_run, force, wait_seconds, output), tree, patches))


# --- One API server ---------------------------------------------------------------------------------------------------


async def _apply(target: Target, options: ApplyOptions, tree: Tree, patches: list[Patch]) -> None:
    def show_applied(applied: Sequence["Applied"]) -> None:
        show(options.output, map(_format_line, applied), [one._asdict() for one in applied])

    async with contextlib.AsyncExitStack() as stack:
        await apply_release(await connect(stack, target), tree, patches, options, applied=show_applied)


def _format_line(one: "Applied") -> str:
    return f"{one.result:<10} {one.name}{'  patched' if one.patched else ''}"


_READ: Final = ("crds/bases", "crds/patches")


def diff(
    wanted: ReleaseOptions,
    *,
    server: TargetOptions = TargetOptions(),
    against: Annotated[
        Path | None, Option(help="Tarball, or directory with crds/, to compare with instead of a server.")
    ] = None,
    output: TextOutputOption = TextOutput.TEXT,
) -> None:
    """Print the changes of a release: CRDs and versions added, changed, removed, or lost with objects.

    Compares with the CRDs of a server, by dry-run requests, or with another release (--against). The server is that of
    --kubeconfig, --context or --in-cluster (default: that of kubectl).

    Exit codes: 0 no difference; 1 differences; others as of `apply`.
    """
    wanted = wanted.show_progress(shown=output is not TextOutput.JSON)
    with exit_on_error("nothing was changed"):
        if against is not None:
            if server.is_given:
                raise CRDsError(Exit.USAGE, "give --against or the cluster of the instance, not both")
            changes = compare_releases(_read_other(against), read_tree(wanted))
        else:
            if server.is_given:
                server.find()  # Before a download, so that a mistake costs no time.
            tree, patches = read_release(wanted)
            changes = asyncio.run(_compare_with_server(server.find(), tree, patches))
        show(output, format_changes(changes), [_build_document(one) for one in changes])
        if changes:
            raise SystemExit(CHECK_FAILED)


def _read_other(path: Path) -> Tree:
    return _read_directory(path) if path.is_dir() else archive.read_tree(path)[1]


def _read_directory(directory: Path) -> Tree:
    content = Content(keep=True)
    try:
        files = [file for below in _READ for file in (directory / below).rglob("*.yaml") if file.is_file()]
        for file in files:
            content.add(file.relative_to(directory).as_posix(), file.read_bytes())
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot read {directory}: {error.strerror or error}") from None
    if not files:
        raise CRDsError(Exit.USAGE, f"{directory} has no *.yaml below {' and '.join(_READ)}")
    return content.build_tree()


async def _compare_with_server(target: Target, tree: Tree, patches: list[Patch]) -> list[CRDChange]:
    from fleethook.engines.crds.apply.crd_apply import plan  # noqa: PLC0415 - see fleethook.cluster

    async with contextlib.AsyncExitStack() as stack:
        return await plan(await connect(stack, target), tree.crds, patches)


def _build_document(change: CRDChange) -> dict[str, object]:
    return {**change._asdict(), "versions": [one._asdict() for one in change.versions]}
