"""``fleethook crds render`` and ``apply``: the CRDs of a tarball, patched for an instance, printed or applied."""

import asyncio
import contextlib
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import yaml

from fleethook.cli.inputs.kubeconfig import Target, TargetOptions
from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import write_document, write_error
from fleethook.cli.parameters import Option
from fleethook.cluster.manifests.yaml_scalars import quote_texts
from fleethook.engines.crds.apply.documents import Tree
from fleethook.engines.crds.apply.patches import Patch, render_crds
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_instances import ApplyOptions, apply_to_instances, check_names
from fleethook.engines.crds.commands.crds_output import Output, exit_on_error, show
from fleethook.engines.crds.commands.crds_release import ReleaseOptions, connect, format_changes, read_release
from fleethook.model.formats.text import is_inert
from fleethook.model.json import JSON

_BASE: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@quote_texts
class _Dumper(_BASE):  # type: ignore[misc]
    """Writes no aliases, and quotes strings that some reader takes for another type."""

    def ignore_aliases(self, _: object) -> bool:
        return True


# Strings that YAML 1.1 or YAML 1.2 read as a number or a boolean, and PyYAML does not.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?0[oOxXbB]?[0-9a-fA-F_]*$"), list("-+0"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))


def dump(objects: Iterable[JSON]) -> str:
    """Return a stream of documents, each preceded by ``---``.

    If a text has characters that control a terminal, all characters beyond ASCII are written as YAML escapes.
    """
    found = list(objects)
    text = _dump_all(found, allow_unicode=True)
    return text if is_inert(text.replace("\n", "")) else _dump_all(found, allow_unicode=False)


def _dump_all(objects: list[JSON], *, allow_unicode: bool) -> str:
    text: str = yaml.dump_all(
        objects, Dumper=_Dumper, explicit_start=True, sort_keys=False, allow_unicode=allow_unicode
    )
    return text


if TYPE_CHECKING:
    from fleethook.engines.crds.apply.apply import Applied


class Form(StrEnum):
    """How objects are printed."""

    YAML = "yaml"
    JSON = "json"


def render(
    wanted: ReleaseOptions,
    *,
    output: Annotated[Form, Option("--output", "-o", help="Output format.")] = Form.YAML,
) -> None:
    """Print the CRDs of a tarball, patched for an instance, in the order in which they are applied.

    Exit codes as of `fetch`; also 2 if a patch needs --name, --namespace or --ca-file, 24 if a patch cannot be merged.
    """
    wanted = wanted.show_progress(shown=output is not Form.JSON)
    with exit_on_error():
        tree, patches = read_release(wanted)
        found = list(render_crds(tree.crds, patches).values())
        if output is Form.YAML:
            write_document(dump(found))
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
    output: option.OutputFormat = Output.TEXT,
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
    wanted = wanted.show_progress(shown=output is not Output.JSON)
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
    from fleethook.engines.crds.apply.apply import apply as apply_crds  # noqa: PLC0415 - see app.kube
    from fleethook.engines.crds.apply.apply import (  # noqa: PLC0415 - as above
        check_lost_versions,
        plan,
        wait_established,
    )

    async with contextlib.AsyncExitStack() as stack:
        connection = await connect(stack, target)
        changes = await plan(connection, tree.crds, patches)
        # Standard output has only the results, perhaps as one JSON document.
        write_error(*format_changes(changes))
        if not options.force:
            check_lost_versions(changes)
        applied = await apply_crds(connection, tree.crds, patches, dry_run=options.dry_run)
        show(options.output, map(_format_line, applied), [one._asdict() for one in applied])
        if options.wait_seconds and not options.dry_run:
            await wait_established(connection, tree.crds, seconds=options.wait_seconds)


def _format_line(one: "Applied") -> str:
    return f"{one.result:<10} {one.name}{'  patched' if one.patched else ''}"
