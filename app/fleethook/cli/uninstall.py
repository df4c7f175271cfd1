"""``fleethook uninstall``: remove everything that fleethook has registered, and restore the workloads.

The webhook configurations come first. Without a server, kube-apiserver would refuse the writes that restore workloads.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from fleethook.cli.command_line import CHECK_FAILED, Option, fail
from fleethook.cli.inputs.cluster_reader import Keep, UnservedError, describe_rules, read_resource
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.options import KcpExportOption, Output, TextOutputOption
from fleethook.cli.output.text_output import write, write_error, write_json
from fleethook.cluster.api_errors import FORBIDDEN, NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.apiserver_connection import MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_CLUSTER, is_required
from fleethook.cluster.kubernetes.watched_resources import (
    APIEXPORTS,
    DEFINITIONS,
    HOOK_CONFIGURATIONS,
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    WatchedResource,
    decode_metadata,
    decode_object,
)
from fleethook.cluster.leader_election import NAME as LEASE_NAME
from fleethook.cluster.leader_election import get_holder
from fleethook.cluster.registration.consumer_bindings_and_webhooks import (
    CONFIGURATIONS,
    CONSUMERS_SECRET,
    name_configuration,
)
from fleethook.cluster.registration.webhook_configurations import CONFIGURATION_NAME, LABELS, list_definitions
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.engine import installed_engines, load_reference
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import INTERPRETER_CONFIGURATION
from fleethook.model.kcp import cluster_of

RemovalAction = Literal["deleted", "restored", "cleaned", "kept", "left"]
"""The result for one object: ``left`` if it had to change and could not."""


class Removal(NamedTuple):
    """The result for one object, with the reason."""

    action: RemovalAction
    kind: str
    namespace: str
    name: str
    detail: str = ""


class LeaderError(Exception):
    """A leader runs, which would register again."""


class Uninstaller:
    """Removes fleethook from one cluster.

    Attributes:
        rows: The results so far.
        missing: The rights that the user lacks: group, resource and verb.
        connection: The connection to the apiserver.
        is_trial: Whether the run changes nothing.
    """

    def __init__(
        self, connection: Connection, *, dry_run: bool, definitions: bool = False, output: Output = Output.TEXT
    ) -> None:
        """Prepare.

        Args:
            connection: The connection to the apiserver.
            dry_run: Whether to change nothing.
            definitions: Whether to delete the CustomResourceDefinitions, and with them all overriders.
            output: With TEXT, each row is printed as soon as it is known.
        """
        self.rows: Final[list[Removal]] = []
        self.missing: Final[set[tuple[str, str, str]]] = set()
        self.connection: Final = connection
        self.is_trial: Final = dry_run
        self._definitions: Final = definitions
        self._output: Final = output

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left that has to change."""
        return not self.missing and all(row.action != "left" for row in self.rows)

    async def run(self) -> None:
        """Remove everything.

        Raises:
            LeaderError: A server holds a Lease. Nothing was changed.
            UnreachableError: The apiserver does not respond.
        """
        leases = await self._find_leases()
        await self._delete_webhooks()
        for engine in installed_engines().values() if leases is not None else ():
            if engine.uninstall:
                await load_reference(engine.uninstall)(self)
        for resource in RIGHTS:
            await self._delete_all(resource, await self.list_objects(resource, is_ours))
        await self._delete_all(SECRETS, await self.list_objects(SECRETS, has_our_keys))
        await self._delete_all(LEASES, leases)
        await self._handle_definitions()

    async def run_export(self, export: str) -> None:
        """Remove the configurations from the consumers of an APIExport of kcp, and the Secret and the Lease.

        Raises:
            LeaderError: A server holds a Lease. Nothing was changed.
            APIError, UnreachableError: The APIExport does not exist or cannot be read.
        """
        await self.connection.request("GET", f"{APIEXPORTS.path}/{export}")
        leases = await self._find_leases()
        for resource in CONFIGURATIONS:
            named = await self.list_objects(
                resource, lambda one: one["metadata"]["name"] == name_configuration(export), prefix=EVERY_CLUSTER
            )
            for one in named or ():
                cluster = cluster_of(one)
                row = make_row("deleted", key_of(one), f"in the logical cluster {cluster}")
                await self._change(row, resource, "delete", f"/clusters/{cluster}{path_of(resource, one)}")
        owned = await self.list_objects(SECRETS, lambda one: one["metadata"]["name"] == CONSUMERS_SECRET)
        await self._delete_all(SECRETS, owned)
        await self._delete_all(LEASES, leases)

    async def _find_leases(self) -> list[JSONObject] | None:
        """Return the Leases of servers; None if they cannot be read. Raises LeaderError if a server holds one."""
        found: list[JSONObject] = []
        for name in (LEASE_NAME, f"{LEASE_NAME}-crds"):
            listed = await self.list_objects(LEASES._replace(only=("", name)))
            if listed is None:
                write_note("workloads are not restored, and a leader that runs registers again: stop all servers first")
                return None
            found += listed
        for lease in found:
            if not (holder := get_holder(lease)):
                continue
            namespace, name = names_of(lease)
            text = (
                f"Lease {namespace}/{name} is held by {holder}, which would register again: stop all replicas first, "
                f"for example with kubectl scale --replicas=0 -n {namespace} deployment/{name}. If one has crashed, "
                f"kubectl delete lease -n {namespace} {name}. Then repeat the command"
            )
            if not self.is_trial:
                raise LeaderError(text)
            write_note(text)
        return found

    async def _delete_webhooks(self) -> None:
        hooks = [one for one in HOOK_CONFIGURATIONS if one.group_kind == INTERPRETER_CONFIGURATION]
        for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS, *hooks):
            await self._delete_all(resource, await self.list_objects(resource, is_our_configuration))

    async def _handle_definitions(self) -> None:
        """Delete or keep the CustomResourceDefinitions of fleethook, and name the rest of a release."""
        names = {one["metadata"]["name"] for found in list_definitions().values() for one in found}
        for one in await self.list_objects(DEFINITIONS, is_ours) or ():
            name = one["metadata"]["name"]
            is_deletable = name.partition(".")[0] in DELETABLE_DEFINITIONS
            if is_deletable and self._definitions and self.is_complete:
                await self._delete_all(DEFINITIONS, [one])
            elif name in names:
                hint = "; delete it with --crds, once nothing else is left" if is_deletable else ", and their workloads"
                self.add(make_row("kept", key_of(one), f"its deletion would delete its objects{hint}"))
        selector = f"{NAME_LABEL} in ({','.join(sorted(COMPONENTS))})"
        for one in await self.list_objects(DEPLOYMENTS._replace(selector=selector)) or ():
            namespace, _ = names_of(one)
            release = as_object(one["metadata"].get("annotations")).get("meta.helm.sh/release-name")
            remedy = f"run helm uninstall {release} -n {namespace}" if release else "delete it"
            self.add(make_row("kept", key_of(one), remedy))

    async def clean(
        self, resource: WatchedResource, document: JSONObject, change: JSONObject, detail: str, *, subresource: str = ""
    ) -> None:
        """Remove members from an object by a merge patch; a subresource is such as ``/status``."""
        row = make_row("cleaned", key_of(document), detail)
        named = resource._replace(plural=f"{resource.plural}{subresource}")
        path = f"{path_of(resource, document)}{subresource}"
        await self._change(row, named, "patch", path, body=change, content_type=MERGE_PATCH)

    async def list_objects(
        self,
        resource: WatchedResource,
        matches: Callable[[JSONObject], bool] | None = None,
        *,
        prefix: str = "",
        keep: Keep | None = None,
    ) -> list[JSONObject] | None:
        """Return the objects of a resource that match, None if they cannot be read."""
        row = Removal("left", resource.name, "", "")
        work = read_resource(self.connection, resource, prefix=prefix, keep=keep)
        try:
            found: list[JSONObject] | None = await self._try(work, resource, "list", row)
        except UnservedError as error:
            if not prefix and is_required(resource, prefix):
                text = f"{self.connection.host} does not serve {resource.name} ({error}): check the kubeconfig"
                raise UnreachableError(text) from None
            return []
        return found if found is None or matches is None else [one for one in found if matches(one)]

    async def get(self, resource: WatchedResource, namespace: str, name: str, *, row: Removal) -> JSONObject | None:
        """Return an object, None if it is gone or cannot be read. Report `row` as left if it cannot be read."""
        work = self.connection.request("GET", resource.in_namespace(namespace, name))
        text = await self._try(work, resource, "get", row)
        return None if text is None else resource.decode(text)

    async def _delete_all(self, resource: WatchedResource, found: Iterable[JSONObject] | None) -> None:
        for one in found or ():
            row = make_row("deleted", key_of(one))
            await self._change(row, resource, "delete", path_of(resource, one))

    async def _change(self, row: Removal, resource: WatchedResource, verb: str, path: str, **rest: Any) -> None:
        """Change an object unless nothing may change, and report `row`, or that the object is left."""
        request = self.connection.request
        if self.is_trial or await self._try(request(verb.upper(), path, **rest), resource, verb, row):
            self.add(row)

    async def _try(self, work: Awaitable[JSON], resource: WatchedResource, verb: str, row: Removal) -> JSON:
        """Return the result of a request, None if the apiserver refuses it or does not know the object.

        Args:
            work: The request.
            resource: The resource of the object.
            verb: The right that the request needs.
            row: The result to report as left if the apiserver refuses the request.
        """
        try:
            return await work
        except APIError as error:
            if error.code != NOT_FOUND:
                self.refuse(error, row, resource, verb)
            return None

    def refuse(self, error: APIError, row: Removal, resource: WatchedResource, verb: str) -> None:
        """Report a request that the apiserver has refused."""
        detail = f"cannot {verb}: {error.message}"
        # Webhooks refuse with the same code.
        if error.code == FORBIDDEN and f"cannot {verb} resource" in error.message:
            self.missing.add((resource.group, resource.plural, verb))
            detail = f"no right to {verb}"
        self.add(row._replace(action="left", detail=detail))

    def add(self, row: Removal) -> None:
        """Report the result for an object."""
        self.rows.append(row)
        if self._output is Output.TEXT:
            write(_format_row(row, dry_run=self.is_trial))


def make_row(action: RemovalAction, key: ObjectKey, detail: str = "") -> Removal:
    """Return the result for an object."""
    return Removal(action, key.group_kind.kind, key.namespace, key.name, detail)


_RBAC: Final = "rbac.authorization.k8s.io"
NAME_LABEL: Final = "app.kubernetes.io/name"
NAME: Final = LABELS[NAME_LABEL]
_CHART: Final = re.compile(r"fleethook-\d")
"""The value of ``helm.sh/chart``, which the chart's value ``nameOverride`` does not change."""
COMPONENTS: Final = frozenset({NAME, f"{NAME}-crds"})
WEBHOOK_SUFFIX: Final = ".fleethook.io"
_SECRET_KEYS: Final = frozenset({"ca.key", "tls.key", "tls.crt"})

_BINDINGS: Final = WatchedResource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", decode_metadata)
_ROLES: Final = WatchedResource(_RBAC, "v1", "clusterroles", "ClusterRole", decode_metadata)
# Bindings first: a role without its binding grants nothing.
RIGHTS: Final = (
    _BINDINGS,
    _BINDINGS._replace(plural="rolebindings", kind="RoleBinding"),
    _ROLES,
    _ROLES._replace(plural="roles", kind="Role"),
)
LEASES: Final = WatchedResource("coordination.k8s.io", "v1", "leases", "Lease", decode_object)
SECRETS: Final = WatchedResource("", "v1", "secrets", "Secret", decode_object, selector=f"{NAME_LABEL}={NAME}")
DEPLOYMENTS: Final = WatchedResource("apps", "v1", "deployments", "Deployment", decode_metadata)
# The deletion of another definition would delete subjects, and with these their workloads.
DELETABLE_DEFINITIONS: Final = frozenset({"yurtappoverriders", "resourceexploringwebhookconfigurations"})


def is_ours(document: JSONObject) -> bool:
    """Return whether fleethook or its chart has created an object, by its labels."""
    labels = as_object(document["metadata"].get("labels"))
    return labels.get(NAME_LABEL) in COMPONENTS or bool(_CHART.match(str(labels.get("helm.sh/chart"))))


def is_our_configuration(document: JSONObject) -> bool:
    """Return whether a configuration calls fleethook only: by its name, its labels, or the names of its webhooks."""
    names = [str(webhook.get("name")) for webhook in document.get("webhooks") or ()]
    named = bool(names) and all(name.endswith(WEBHOOK_SUFFIX) for name in names)
    return document["metadata"]["name"] == CONFIGURATION_NAME or is_ours(document) or named


def has_our_keys(secret: JSONObject) -> bool:
    """Return whether a Secret has the keys that `fleethook.cluster.certificates.secret_and_ca_rotation` writes."""
    return as_object(secret.get("data")).keys() >= _SECRET_KEYS


def names_of(document: JSONObject) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def path_of(resource: WatchedResource, document: JSONObject) -> str:
    """Return the path of an object in the version in which it was read."""
    version = document["apiVersion"].rpartition("/")[2]
    return resource._replace(version=version).in_namespace(*names_of(document))


_PLANNED: Final = {"deleted": "would delete", "restored": "would restore", "cleaned": "would clean"}


def uninstall(
    changed: TargetOptions = TargetOptions(),
    dry_run: Annotated[bool, Option("--dry-run", help="Print the changes, and make none.")] = False,
    crds: Annotated[bool, Option(help="Delete the definition of YurtAppOverriders, and all of them.")] = False,
    kcp_export: KcpExportOption = None,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Remove everything that fleethook has registered with a cluster, and restore the workloads.

    The command deletes webhook configurations, roles, the Lease, and Secrets with certificates.
    It restores each workload to the template of its subject, so Pods with overrides roll out. YurtAppOverriders stay
    and have no effect. It needs no running server and no chart.

    Because the command deletes objects, one of --kubeconfig, --context and --in-cluster must name the cluster.

    Stop all servers first: a leader would register again, so the command changes nothing while a Lease has a holder.
    After a failure, repeat the command: it does only the rest.

    A workload is left if its owner or its node pool is gone, or if its annotation fleethook.io/undo is damaged.

    Exit codes: 0 nothing of fleethook is left; 1 something is left, which the output names; 2 invalid arguments, a
    leader runs, or the cluster does not respond.
    """
    if not changed.is_given:
        fail("give one of --kubeconfig, --context and --in-cluster: the command deletes objects of this cluster")
    target = changed.find()

    async def run() -> Uninstaller:
        async with target.connect(export=kcp_export) as connection:
            uninstaller = Uninstaller(connection, dry_run=dry_run, definitions=crds, output=output)
            await (uninstaller.run() if kcp_export is None else uninstaller.run_export(kcp_export))
            return uninstaller

    try:
        done = asyncio.run(run())
    except LeaderError as error:
        fail(str(error))
    except (APIError, UnreachableError) as error:
        fail(f"not finished, correct this and repeat the command: {error}")
    _report_end(done, output, dry_run=dry_run)


def write_note(text: str) -> None:
    """Write a note to standard error."""
    write_error(f"note: {text}")


def _format_row(row: Removal, *, dry_run: bool) -> str:
    action = _PLANNED.get(row.action, row.action) if dry_run else row.action
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    return f"{action:<{14 if dry_run else 9}} {f'{row.kind} {name}'.strip()}{f': {row.detail}' if row.detail else ''}"


def _report_end(done: Uninstaller, output: Output, *, dry_run: bool) -> None:
    """Print the summary, and exit with 1 if something is left."""
    if output is Output.JSON:
        write_json({"dryRun": dry_run, "complete": done.is_complete, "objects": [row._asdict() for row in done.rows]})
    else:
        write(_summarize(done.rows, dry_run=dry_run))
    if done.missing:
        write_error(f"fleethook: the user lacks rights: {describe_rules(sorted(done.missing))}")
    if not done.is_complete:
        raise SystemExit(CHECK_FAILED)


def _summarize(rows: Sequence[Removal], *, dry_run: bool) -> str:
    counts = Counter[str](row.action for row in rows)
    if counts.keys() <= {"kept"}:
        return "nothing of fleethook is registered"
    planned = "would be " if dry_run else ""
    return ", ".join([*(f"{counts[action]} {planned}{action}" for action in _PLANNED), f"{counts['left']} left"])
