"""``fleethook crds apply --instance`` and ``--all``: apply CRDs to the instances of a cluster by their Secrets."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleethook.cli.inputs.kubeconfig import Target as HostCluster
from fleethook.cli.options import TextOutput
from fleethook.cli.output.text_output import write, write_error, write_json
from fleethook.engines.crds.apply.crd_patches import Patch, build_values
from fleethook.engines.crds.archive.crd_content import Tree
from fleethook.engines.crds.commands.crds_options import read_file
from fleethook.engines.crds.commands.crds_release import (
    ReleaseOptions,
    build_instance_patches,
    connect,
    format_changes,
    read_instance_tree,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.karmada_instance import is_being_deleted, is_suspended
from fleethook.model.json import JSONObject, as_object
from fleethook.model.operator import KARMADA

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.engines.crds.apply.crd_apply import Applied
    from fleethook.engines.crds.apply.instance_server import Target

AT_ONCE: Final = 8
"""Limit of concurrent requests, to API servers of instances and for Secrets."""


class ApplyOptions(NamedTuple):
    """Options of applying CRDs."""

    dry_run: bool
    force: bool
    wait_seconds: float
    output: TextOutput


class Instance(NamedTuple):
    """An instance with its release, or the reason to skip it."""

    name: str
    """Namespace and name, with a slash between them."""
    karmada: JSONObject
    target: "Target | None" = None
    failure: CRDsError | None = None
    skipped: str = ""
    tree: Tree | None = None
    patches: Sequence[Patch] = ()


class _Outcome(NamedTuple):
    instance: str
    result: str
    exit: Exit = Exit.OK
    message: str = ""
    crds: "Sequence[Applied]" = ()

    def line(self) -> str:
        return f"{self.result:<8} {self.instance}  {self.message}"

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "exit": int(self.exit), "crds": [one._asdict() for one in self.crds]}


def check_names(names: Sequence[str], wanted: ReleaseOptions, *, every: bool) -> None:
    """Raise CRDsError USAGE for options that exclude each other, and for malformed names."""
    if every and names:
        raise CRDsError(Exit.USAGE, "give --instance or --all, not both")
    if wanted.karmada is not None:
        raise CRDsError(Exit.USAGE, "give --karmada FILE or instances of a cluster (--instance, --all), not both")
    if (wanted.name or wanted.namespace) and (every or len(names) != 1):
        raise CRDsError(Exit.USAGE, "--name and --namespace are for one instance: give one --instance")
    for name in names:
        namespace, _, rest = name.partition("/")
        if not namespace or not rest or "/" in rest:
            raise CRDsError(Exit.USAGE, f"--instance {name}: must be NAMESPACE/NAME")


def apply_to_instances(
    wanted: ReleaseOptions, names: Sequence[str], *, host: HostCluster, options: ApplyOptions
) -> None:
    """Apply CRDs to the API servers of instances, and print one line for each; a failure does not end the others.

    Args:
        wanted: Options of the tarball; without one, each instance gets the tarball that it names.
        names: Instances, ``NAMESPACE/NAME``; none for all that are neither suspended nor being deleted.
        host: The cluster that has the instances.
        options: Options of applying CRDs.

    Raises:
        CRDsError: The instances cannot be read.
        SystemExit: The highest exit code of all instances, if it is not 0.
    """
    ca_pem = None if wanted.ca_file is None else read_file(wanted.ca_file)
    instances = asyncio.run(_read_all(host, list(dict.fromkeys(names)), ca_pem))
    # Outside of the event loop, because Ctrl-C ends a download only there.
    instances = [_read_release(wanted, one) for one in instances]
    outcomes = asyncio.run(_apply_all(instances, options))
    if options.output is TextOutput.JSON:
        write_json([one.document() for one in outcomes], indent=None)
    worst = max((one.exit for one in outcomes), default=Exit.OK)
    if worst:
        raise SystemExit(worst)


# --- Reading instances ------------------------------------------------------------------------------------------------


async def _read_all(cluster: HostCluster, names: list[str], ca_pem: bytes | None) -> list[Instance]:
    from fleethook.engines.crds.apply.instance_server import list_instances  # noqa: PLC0415 - see fleethook.cluster

    slots = asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as stack:
        host = await connect(stack, cluster)
        if names:
            found = [await _find(host, name) for name in names]
        else:
            found = [
                Instance(_format_name(one), one, skipped=_reason_to_skip(one)) for one in await list_instances(host)
            ]
        return await asyncio.gather(*(_read_secrets(host, one, ca_pem, slots) for one in found))


async def _find(host: "Connection", name: str) -> Instance:
    from fleethook.engines.crds.apply.instance_server import find_instance  # noqa: PLC0415 - see fleethook.cluster

    try:
        return Instance(name, await find_instance(host, *name.split("/")))
    except CRDsError as error:
        return Instance(name, {}, failure=error)


async def _read_secrets(host: "Connection", one: Instance, ca_pem: bytes | None, slots: asyncio.Semaphore) -> Instance:
    from fleethook.engines.crds.apply.instance_server import read_target  # noqa: PLC0415 - see fleethook.cluster

    if one.failure is not None or one.skipped:
        return one
    async with slots:
        try:
            return one._replace(target=await read_target(host, one.karmada, ca_pem=ca_pem))
        except CRDsError as error:
            return one._replace(failure=error)


def _format_name(karmada: JSONObject) -> str:
    metadata = as_object(karmada.get("metadata"))
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


def _reason_to_skip(karmada: JSONObject) -> str:
    if is_suspended(karmada):
        return f"the {KARMADA.kind} is suspended"
    return f"the {KARMADA.kind} is being deleted" if is_being_deleted(karmada) else ""


def _read_release(wanted: ReleaseOptions, one: Instance) -> Instance:
    if one.target is None:
        return one
    metadata = as_object(one.karmada.get("metadata"))
    try:
        values = build_values(
            name=wanted.name or metadata.get("name", ""),
            namespace=wanted.namespace or metadata.get("namespace", ""),
            ca_pem=one.target.ca_pem,
        )
        tree = read_instance_tree(wanted, one.karmada)
        return one._replace(tree=tree, patches=build_instance_patches(tree, values))
    except CRDsError as error:
        return one._replace(failure=error)


# --- Applying ---------------------------------------------------------------------------------------------------------


async def _apply_all(instances: Sequence[Instance], options: ApplyOptions) -> list[_Outcome]:
    slots = asyncio.Semaphore(AT_ONCE)
    show: Callable[[str], None] = (lambda _: None) if options.output is TextOutput.JSON else write

    async def apply(one: Instance) -> _Outcome:
        outcome = await _apply_one(one, options, slots)
        show(outcome.line())
        return outcome

    return await asyncio.gather(*map(apply, instances))


async def _apply_one(one: Instance, options: ApplyOptions, slots: asyncio.Semaphore) -> _Outcome:
    from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.engines.crds.apply.crd_apply import summarize  # noqa: PLC0415 - as above

    if one.skipped:
        return _Outcome(one.name, "skipped", message=one.skipped)
    try:
        if one.failure is not None:
            raise one.failure
        assert one.target is not None
        assert one.tree is not None
        async with slots, Connection(one.target.access) as connection:
            crds = await apply_release(connection, one.tree, one.patches, options, name=one.name)
    except CRDsError as error:
        concealed = error if one.target is None else one.target.conceal(error)
        return _Outcome(one.name, "failed", error.exit, str(concealed))
    return _Outcome(one.name, "tried" if options.dry_run else "applied", message=summarize(crds), crds=crds)


async def apply_release(
    connection: "Connection",
    tree: Tree,
    patches: Sequence[Patch],
    options: ApplyOptions,
    *,
    name: str = "",
    applied: Callable[[Sequence["Applied"]], None] = lambda _: None,
) -> Sequence["Applied"]:
    """Print the changes that a release makes on a server, apply it, and wait until its CRDs are established.

    Args:
        connection: Connection to the server.
        tree: The release.
        patches: Its patches.
        options: Options of applying CRDs.
        name: The instance, which precedes each line of the changes.
        applied: Called with the results before the wait.

    Raises:
        CRDsError: NETWORK or HTTP; ARCHIVE if the release drops a stored version, and the options do not force that.
    """
    from fleethook.engines.crds.apply.crd_apply import (  # noqa: PLC0415 - see fleethook.cluster
        apply,
        check_lost_versions,
        plan,
        wait_established,
    )

    changes = await plan(connection, tree.crds, patches)
    # Standard output has only the results, perhaps as one JSON document.
    write_error(*(f"{name}: {line}" if name else line for line in format_changes(changes)))
    if not options.force:
        check_lost_versions(changes)
    crds = await apply(connection, tree.crds, patches, dry_run=options.dry_run)
    applied(crds)
    if options.wait_seconds and not options.dry_run:
        await wait_established(connection, tree.crds, seconds=options.wait_seconds)
    return crds
