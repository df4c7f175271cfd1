"""``fleethook crds diff``: the differences of a release from a server's CRDs, or from another release."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, Final

from fleethook.cli.exit_codes import CHECK_FAILED
from fleethook.cli.inputs.kubeconfig import Target, TargetOptions
from fleethook.cli.parameters import Option
from fleethook.engines.crds.apply.diff import CRDChange, compare_releases
from fleethook.engines.crds.apply.documents import Tree, read_files
from fleethook.engines.crds.apply.patches import Patch
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_output import Output, exit_on_error, show
from fleethook.engines.crds.commands.crds_release import (
    ReleaseOptions,
    connect,
    format_changes,
    read_release,
    read_tree,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit

_READ: Final = ("crds/bases", "crds/patches")


def diff(
    wanted: ReleaseOptions,
    *,
    server: TargetOptions = TargetOptions(),
    against: Annotated[
        Path | None, Option(help="Tarball, or directory with crds/, to compare with instead of a server.")
    ] = None,
    output: option.OutputFormat = Output.TEXT,
) -> None:
    """Print the changes of a release: CRDs and versions added, changed, removed, or lost with objects.

    Compares with the CRDs of a server, by dry-run requests, or with another release (--against). The server is that of
    --kubeconfig, --context or --in-cluster (default: that of kubectl).

    Exit codes: 0 no difference; 1 differences; others as of `apply`.
    """
    wanted = wanted.show_progress(shown=output is not Output.JSON)
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
    return read_files(_read_directory(path) if path.is_dir() else archive.read_files(path)[1])


def _read_directory(directory: Path) -> dict[str, bytes]:
    try:
        files = [file for below in _READ for file in (directory / below).rglob("*.yaml") if file.is_file()]
        found = {file.relative_to(directory).as_posix(): file.read_bytes() for file in files}
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot read {directory}: {error.strerror or error}") from None
    if not found:
        raise CRDsError(Exit.USAGE, f"{directory} has no *.yaml below {' and '.join(_READ)}")
    return found


async def _compare_with_server(target: Target, tree: Tree, patches: list[Patch]) -> list[CRDChange]:
    from fleethook.engines.crds.apply.apply import plan  # noqa: PLC0415 - see app.kube

    async with contextlib.AsyncExitStack() as stack:
        return await plan(await connect(stack, target), tree.crds, patches)


def _build_document(change: CRDChange) -> dict[str, object]:
    return {**change._asdict(), "versions": [one._asdict() for one in change.versions]}
