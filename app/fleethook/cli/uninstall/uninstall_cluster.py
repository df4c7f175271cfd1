"""Removes everything that fleethook has registered with a cluster, and restores the workloads.

The webhook configurations come first. Without a server, kube-apiserver would refuse the writes that restore workloads.
Then come the policies, which would render these writes again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from fleethook.cli.inputs.cluster_reader import Keep, UnservedError, read_resource
from fleethook.cli.uninstall.uninstall_objects import (
    COMPONENTS,
    DELETABLE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAME,
    NAME_LABEL,
    POLICIES,
    RIGHTS,
    SECRETS,
    WEBHOOK_SUFFIX,
    guess_secrets,
    has_our_keys,
    is_our_configuration,
    is_ours,
    names_of,
    path_of,
)
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import JSON_PATCH, MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.resources import (
    DEFINITIONS,
    HOOK_CONFIGURATIONS,
    MUTATING_CONFIGURATIONS,
    NODE_POOLS,
    VALIDATING_CONFIGURATIONS,
    WORKLOADS,
    YURT_APP_DAEMONS,
    YURT_APP_OVERRIDERS,
    YURT_APP_SETS,
    WatchedResource,
)
from fleethook.cluster.leader_election import NAME as LEASE_NAME
from fleethook.cluster.leader_election import LeaseName, compute_patience, find_leader, get_holder
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.engines.overrider.policies.mode import OVERRIDER_ANNOTATION
from fleethook.engines.overrider.render.restoration import Restorer, has_traces, list_nudged
from fleethook.model.crd import RESOURCES as DEFINED
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import INTERPRETER_CONFIGURATION
from fleethook.model.openyurt import NUDGED_ANNOTATION

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403
_INTERNAL: Final = 500
# An apiserver follows webhook configurations and policies by watches, usually within milliseconds.
_MAX_TRIES: Final = 40
_PAUSE_SECONDS: Final = 0.25
_AT_ONCE: Final = 10


class Action(StrEnum):
    """The result for one object."""

    DELETED = "deleted"
    RESTORED = "restored"
    CLEANED = "cleaned"
    KEPT = "kept"
    LEFT = "left"
    """The object had to change and could not."""


class Row(NamedTuple):
    """The result for one object, with the reason."""

    action: Action
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
    """

    def __init__(
        self,
        connection: Connection,
        *,
        dry_run: bool,
        secret: tuple[str, str] | None = None,
        definitions: bool = False,
        report: Callable[[Row], None] = lambda _: None,
        note: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            dry_run: Whether to change nothing.
            secret: Namespace and name of a Secret with certificates that has no label.
            definitions: Whether to delete the CustomResourceDefinitions, and with them all overriders.
            report: Called with each row.
            note: Called with texts for the user.
            sleep: Waits for a number of seconds.
        """
        self.rows: Final[list[Row]] = []
        self.missing: Final[set[tuple[str, str, str]]] = set()
        self._connection: Final = connection
        self._dry_run: Final = dry_run
        self._secrets: Final = set() if secret is None else {secret}
        self._definitions: Final = definitions
        self._report: Final = report
        self._note: Final = note
        self._sleep: Final = sleep

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left that has to change."""
        return not self.missing and all(one.action is not Action.LEFT for one in self.rows)

    async def run(self) -> None:
        """Remove everything.

        Raises:
            LeaderError: A leader runs. Nothing was changed.
            UnreachableError: The apiserver does not respond.
        """
        leases = await self._find_leases()
        await self._delete_webhooks()
        for resource in POLICIES:
            await self._delete_all(resource, await self._list(resource))
        if leases is not None:
            await self._restore_workloads()
        for resource in RIGHTS:
            await self._delete_all(resource, await self._list(resource, is_ours))
        await self._delete_secrets()
        await self._delete_all(LEASES, leases)
        await self._handle_definitions()
        await self._look_again()

    async def _find_leases(self) -> list[JSONObject] | None:
        """Return the Leases of servers; None if they cannot be read. Raises LeaderError if one is renewed."""
        found: list[JSONObject] = []
        for name in (LEASE_NAME, f"{LEASE_NAME}-crds"):
            listed = await self._list(LEASES._replace(only=("", name)))
            if listed is None:
                self._note("workloads are not restored: a leader that runs would render them again")
                return None
            found += listed
        for lease in found:
            holder, (namespace, name) = get_holder(lease), names_of(lease)
            if not holder:
                continue
            if self._dry_run:
                self._note(f"Lease {namespace}/{name} is held by {holder}: {_advise(namespace, name)}")
                continue
            seconds = compute_patience(lease)
            self._note(
                f"waiting up to {seconds:.0f} s to see whether {holder} still renews the Lease {namespace}/{name}"
            )
            if leader := await find_leader(self._connection, LeaseName(namespace, name).path, lease, sleep=self._sleep):
                raise LeaderError(f"{leader} leads and would register again: {_advise(namespace, name)}")
        return found

    async def _delete_webhooks(self) -> None:
        for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS):
            found = await self._list(resource, is_our_configuration)
            for one in found or ():
                self._secrets.update(guess_secrets(one))
            await self._delete_all(resource, found)
        for resource in HOOK_CONFIGURATIONS:
            if resource.group_kind == INTERPRETER_CONFIGURATION:
                await self._delete_all(resource, await self._list(resource, is_our_configuration))

    async def _restore_workloads(self) -> None:
        """Restore workloads, and remove the annotations of their subjects."""
        inputs: list[JSONObject] = []
        for resource in (YURT_APP_SETS, YURT_APP_DAEMONS, NODE_POOLS):
            found = await self._list(resource)
            if found is None:
                self._note(f"workloads are not restored: their templates need all {resource.name}")
                return
            inputs += found
        restorer = Restorer(inputs)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def restore(resource: WatchedResource, workload: JSONObject) -> None:
            async with slots:
                await self._restore(restorer, resource, workload)

        for resource in WORKLOADS:
            # A workload that lost the label of its node pool keeps its overrides, too.
            workloads = await self._list(resource._replace(selector=""), keep=has_traces)
            await asyncio.gather(*(restore(resource, one) for one in workloads or ()))
        for resource in (YURT_APP_SETS, YURT_APP_DAEMONS):
            nudged = [one for one in list_nudged(inputs) if key_of(one).group_kind == resource.group_kind]
            for one in nudged:
                change: JSONObject = {"metadata": {"annotations": {NUDGED_ANNOTATION: None}}}
                await self._clean(resource, one, change, f"annotation {NUDGED_ANNOTATION}")
        for one in await self._list(YURT_APP_OVERRIDERS) or ():
            if one.get("status"):
                status = YURT_APP_OVERRIDERS._replace(plural=f"{YURT_APP_OVERRIDERS.plural}/status")
                await self._clean(status, one, {"status": None}, "status")

    async def _restore(self, restorer: Restorer, resource: WatchedResource, workload: JSONObject) -> None:
        """Restore one workload; another client may change it meanwhile."""
        key, path = key_of(workload), path_of(resource, workload)
        problem = "the apiserver renders it again"
        for attempt in range(_MAX_TRIES):
            plan = restorer.plan(workload)
            if plan.problem:
                self._add(_row(Action.LEFT, key, f"{plan.problem}; it keeps its overrides until you edit or delete it"))
                return
            if not plan.operations and not attempt:
                return
            done = _row(Action.RESTORED if plan.rendered or attempt else Action.CLEANED, key)
            if not plan.operations or self._dry_run:
                self._add(done)
                return
            version = {
                "op": "replace", "path": "/metadata/resourceVersion", "value": workload["metadata"]["resourceVersion"]
            }  # fmt: skip
            body = [version, *plan.operations]
            try:
                text = await self._connection.request("PATCH", path, body=body, content_type=JSON_PATCH)
                workload = resource.decode(text)
                if not restorer.plan(workload).operations:
                    self._add(done)
                    return
            except APIError as error:
                problem = error.message
                is_late = error.code == _INTERNAL and WEBHOOK_SUFFIX in problem
                if error.code not in (_CONFLICT, _NOT_FOUND) and not is_late:
                    self._refuse(error, done, resource, "patch")
                    return
            # Another client has written or deleted the workload, or kube-apiserver does not know yet that webhooks and
            # policies are gone.
            await self._sleep(_PAUSE_SECONDS)
            found = await self._get(resource, *names_of(workload), row=done)
            if found is None:
                return
            workload = found
        self._add(_row(Action.LEFT, key, f"{_MAX_TRIES} writes failed: {problem}"))

    async def _delete_secrets(self) -> None:
        """Delete the Secrets with certificates that servers have created."""
        found = await self._list(SECRETS._replace(selector=f"{NAME_LABEL}={NAME}"), has_our_keys)
        named = {names_of(one): one for one in found or ()}
        for namespace, name in sorted(self._secrets - named.keys()):
            row = Row(Action.LEFT, SECRETS.kind, namespace, name)
            secret = await self._get(SECRETS, namespace, name, row=row)
            if secret is not None and has_our_keys(secret):
                named[namespace, name] = secret
        await self._delete_all(SECRETS, list(named.values()))

    async def _handle_definitions(self) -> None:
        """Delete or keep the CustomResourceDefinitions of fleethook, and name the rest of a release."""
        names = {f"{one.plural}.{one.group}": one.plural for one in DEFINED}
        for one in await self._list(DEFINITIONS, is_ours) or ():
            name = one["metadata"]["name"]
            if name not in names:
                continue
            row = _row(Action.KEPT, key_of(one))
            if names[name] not in DELETABLE_DEFINITIONS:
                self._add(row._replace(detail="its deletion would delete its objects, and their workloads"))
            elif not self._definitions:
                self._add(row._replace(detail="its deletion would delete its objects; delete it with --crds"))
            elif not self.is_complete:
                self._add(row._replace(detail="something else is left; repeat the command with --crds"))
            else:
                await self._delete_all(DEFINITIONS, [one])
        selector = f"{NAME_LABEL} in ({','.join(sorted(COMPONENTS))})"
        for one in await self._list(DEPLOYMENTS._replace(selector=selector)) or ():
            namespace, _ = names_of(one)
            release = as_object(one["metadata"].get("annotations")).get("meta.helm.sh/release-name")
            remedy = f"run helm uninstall {release} -n {namespace}" if release else "delete it"
            self._add(_row(Action.KEPT, key_of(one), remedy))

    async def _look_again(self) -> None:
        """Report the objects that a server has registered again, if one has started meanwhile."""
        deleted = {one[1:4] for one in self.rows if one.action is Action.DELETED}
        if self._dry_run or not deleted:
            return
        for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS, *POLICIES):
            for one in await self._list(resource) or ():
                row = _row(Action.LEFT, key_of(one), "it exists again: stop all servers, and repeat the command")
                if row[1:4] in deleted:
                    self._add(row)

    async def _clean(self, resource: WatchedResource, document: JSONObject, change: JSONObject, detail: str) -> None:
        """Remove members from an object by a merge patch."""
        row = _row(Action.CLEANED, key_of(document), detail)
        plural, _, subresource = resource.plural.partition("/")
        path = path_of(resource._replace(plural=plural), document)
        path = f"{path}/{subresource}" if subresource else path
        work = None if self._dry_run else self._connection.request("PATCH", path, body=change, content_type=MERGE_PATCH)
        if work is None or await self._try(work, resource, "patch", row):
            self._add(row)

    async def _list(
        self,
        resource: WatchedResource,
        matches: Callable[[JSONObject], bool] | None = None,
        *,
        keep: Keep | None = None,
    ) -> list[JSONObject] | None:
        """Return the objects of a resource that match, None if they cannot be read."""
        row = Row(Action.LEFT, resource.name, "", "")
        found: list[JSONObject] | None = await self._try(_read(self._connection, resource, keep), resource, "list", row)
        return found if found is None or matches is None else [one for one in found if matches(one)]

    async def _get(self, resource: WatchedResource, namespace: str, name: str, *, row: Row) -> JSONObject | None:
        work = self._connection.request("GET", resource.in_namespace(namespace, name))
        text = await self._try(work, resource, "get", row)
        return None if text is None else resource.decode(text)

    async def _delete_all(self, resource: WatchedResource, found: Iterable[JSONObject] | None) -> None:
        for one in found or ():
            overrider = as_object(one["metadata"].get("annotations")).get(OVERRIDER_ANNOTATION)
            row = _row(Action.DELETED, key_of(one), f"of YurtAppOverrider {overrider}" if overrider else "")
            work = None if self._dry_run else self._connection.request("DELETE", path_of(resource, one))
            if work is None or await self._try(work, resource, "delete", row):
                self._add(row)

    async def _try(self, work: Awaitable[JSON], resource: WatchedResource, verb: str, row: Row) -> JSON:
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
            if error.code != _NOT_FOUND:
                self._refuse(error, row, resource, verb)
            return None

    def _refuse(self, error: APIError, row: Row, resource: WatchedResource, verb: str) -> None:
        """Report a request that the apiserver has refused."""
        detail = f"cannot {verb}: {error.message}"
        # Webhooks refuse with the same code.
        if error.code == _FORBIDDEN and f"cannot {verb} resource" in error.message:
            self.missing.add((resource.group, resource.plural, verb))
            detail = f"no right to {verb}"
        self._add(row._replace(action=Action.LEFT, detail=detail))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._report(row)


async def _read(connection: Connection, resource: WatchedResource, keep: Keep | None) -> list[JSONObject]:
    try:
        return await read_resource(connection, resource, keep=keep)
    except UnservedError:
        return []


def _advise(namespace: str, name: str) -> str:
    return (
        f"stop all replicas first, for example with kubectl scale --replicas=0 -n {namespace} deployment/{name}, and "
        "repeat the command"
    )


def _row(action: Action, key: ObjectKey, detail: str = "") -> Row:
    return Row(action, key.group_kind.kind, key.namespace, key.name, detail)
