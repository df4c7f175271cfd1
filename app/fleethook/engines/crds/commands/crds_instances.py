"""``fleethook crds apply --instance`` and ``--all``: apply CRDs to the instances of a cluster by their Secrets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleethook.cli.inputs.kubeconfig import Target as HostCluster
from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import write, write_error
from fleethook.engines.crds.apply.patches import Patch, build_values
from fleethook.engines.crds.archive.content import Tree
from fleethook.engines.crds.commands.crds_options import read_file
from fleethook.engines.crds.commands.crds_output import Output
from fleethook.engines.crds.commands.crds_release import (
    ReleaseOptions,
    build_instance_patches,
    connect,
    format_changes,
    read_instance_tree,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSONObject, as_object
from fleethook.model.operator import KARMADA

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.engines.crds.apply.apply import Applied
    from fleethook.engines.crds.apply.target import Target

AT_ONCE: Final = 8
"""Limit of concurrent requests, to API servers of instances and for Secrets."""


class ApplyOptions(NamedTuple):
    """Options of applying CRDs."""

    dry_run: bool
    force: bool
    wait_seconds: float
    output: Output


class Instance(NamedTuple):
    """An instance, or the reason to skip it."""

    name: str
    """Namespace and name, with a slash between them."""
    karmada: JSONObject
    target: "Target | None" = None
    failure: CRDsError | None = None
    skipped: str = ""


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
    work = [_read_release(wanted, one) for one in instances]
    outcomes = asyncio.run(_apply_all(work, options))
    if options.output is Output.JSON:
        write_json([one.document() for one in outcomes], indent=None)
    worst = max((one.exit for one in outcomes), default=Exit.OK)
    if worst:
        raise SystemExit(worst)


# --- Reading instances ------------------------------------------------------------------------------------------------


async def _read_all(cluster: HostCluster, names: list[str], ca_pem: bytes | None) -> list[Instance]:
    from fleethook.engines.crds.apply.target import find_instance, list_instances  # noqa: PLC0415 - see app.kube

    slots = asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as stack:
        host = await connect(stack, cluster)
        if not names:
            listed = [
                Instance(_format_name(one), one, skipped=_reason_to_skip(one)) for one in await list_instances(host)
            ]
            return await asyncio.gather(*(_read_secrets(host, one, ca_pem, slots) for one in listed))
        found: list[Instance] = []
        for name in names:
            try:
                found.append(Instance(name, await find_instance(host, *name.split("/"))))
            except CRDsError as error:
                found.append(Instance(name, {}, failure=error))
        return await asyncio.gather(*(_read_secrets(host, one, ca_pem, slots) for one in found))


async def _read_secrets(host: "Connection", one: Instance, ca_pem: bytes | None, slots: asyncio.Semaphore) -> Instance:
    from fleethook.engines.crds.apply.target import read_target  # noqa: PLC0415 - see app.kube

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
    if as_object(karmada.get("spec")).get("suspend") is True:
        return f"the {KARMADA.kind} is suspended"
    if as_object(karmada.get("metadata")).get("deletionTimestamp"):
        return f"the {KARMADA.kind} is being deleted"
    return ""


# --- Applying ---------------------------------------------------------------------------------------------------------


class _InstanceWork(NamedTuple):
    instance: Instance
    tree: Tree | None = None
    patches: list[Patch] | None = None


def _read_release(wanted: ReleaseOptions, one: Instance) -> _InstanceWork:
    if one.target is None:
        return _InstanceWork(one)
    metadata = as_object(one.karmada.get("metadata"))
    try:
        values = build_values(
            name=wanted.name or metadata.get("name", ""),
            namespace=wanted.namespace or metadata.get("namespace", ""),
            ca_pem=one.target.ca_pem,
        )
        tree = read_instance_tree(wanted, one.karmada)
        return _InstanceWork(one, tree, build_instance_patches(tree, values))
    except CRDsError as error:
        return _InstanceWork(one._replace(failure=error))


async def _apply_all(work: Sequence[_InstanceWork], options: ApplyOptions) -> list[_Outcome]:
    slots = asyncio.Semaphore(AT_ONCE)
    show: Callable[[str], None] = (lambda _: None) if options.output is Output.JSON else write

    async def apply(one: _InstanceWork) -> _Outcome:
        outcome = await _apply_one(one, options, slots)
        show(outcome.line())
        return outcome

    return await asyncio.gather(*map(apply, work))


async def _apply_one(work: _InstanceWork, options: ApplyOptions, slots: asyncio.Semaphore) -> _Outcome:
    from fleethook.engines.crds.apply.apply import summarize  # noqa: PLC0415 - see app.kube

    one = work.instance
    if one.skipped:
        return _Outcome(one.name, "skipped", message=one.skipped)
    try:
        if one.failure is not None:
            raise one.failure
        async with slots:
            crds = await _apply_work(work, options)
    except CRDsError as error:
        concealed = error if one.target is None else one.target.conceal(error)
        return _Outcome(one.name, "failed", error.exit, str(concealed))
    return _Outcome(one.name, "tried" if options.dry_run else "applied", message=summarize(crds), crds=crds)


async def _apply_work(work: _InstanceWork, options: ApplyOptions) -> "Sequence[Applied]":
    from fleethook.engines.crds.apply.apply import (  # noqa: PLC0415 - as above
        apply,
        check_lost_versions,
        plan,
        wait_established,
    )

    assert work.tree is not None
    assert work.patches is not None
    async with _connect(work.instance) as connection:
        changes = await plan(connection, work.tree.crds, work.patches)
        write_error(*(f"{work.instance.name}: {line}" for line in format_changes(changes)))
        if not options.force:
            check_lost_versions(changes)
        crds = await apply(connection, work.tree.crds, work.patches, dry_run=options.dry_run)
        if options.wait_seconds and not options.dry_run:
            await wait_established(connection, work.tree.crds, seconds=options.wait_seconds)
        return crds


@contextlib.asynccontextmanager
async def _connect(one: Instance) -> "AsyncIterator[Connection]":
    from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see app.kube

    assert one.target is not None
    async with Connection(one.target.access) as connection:
        yield connection
