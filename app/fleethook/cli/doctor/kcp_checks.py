"""The checks of ``fleethook doctor --kcp`` and ``--kcp-export``: rights, shards, and the workspaces with rules."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from fleethook.cli.doctor.doctor_checks import Diagnosis
from fleethook.cli.inputs.cluster_reader import describe_missing, describe_rules, list_missing, read_resource
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.list_watch import EVERY_CLUSTER, EVERY_SHARD, find_list_path
from fleethook.cluster.kubernetes.watched_resources import (
    APIEXPORTS,
    CACHED,
    CONSUMERS,
    DISPATCHING,
    WatchedResource,
)
from fleethook.cluster.leader_election import NAME, LeaseName, describe_lease
from fleethook.cluster.registration.consumer_webhooks import (
    CONFIGURATIONS,
    WRITE_VERBS,
    describe_state,
    judge_bindings,
    name_configuration,
)
from fleethook.cluster.registration.registrar import get_object
from fleethook.cluster.registration.rule_webhooks import read_server_namespace
from fleethook.model.json import JSONObject, as_object, list_objects
from fleethook.model.kcp import cluster_of

_SHARDS: Final = "/apis/core.kcp.io/v1alpha1/shards"
_FORBIDDEN: Final = 403
_CACHE_REMEDY: Final = "give the kubeconfig of the cache server with --kcp-cache-kubeconfig"


class _Tried(NamedTuple):
    """A resource whose list and watch were requested."""

    resource: WatchedResource
    code: int
    """The HTTP status of a refusal, 0 if the resource can be read."""
    text: str


async def examine_kcp(connection: Connection, cache: Connection | None) -> list[Diagnosis]:
    """Return the findings; raises UnreachableError.

    Args:
        connection: Connection to a shard.
        cache: Connection to the cache server, None to read one shard.
    """
    found = await _examine_lists(connection, DISPATCHING, EVERY_CLUSTER)
    if cache is None:
        return [*found, await _examine_shards(connection)]
    return [*found, *await _examine_lists(cache, CACHED, EVERY_SHARD)]


async def _examine_lists(connection: Connection, resources: Sequence[WatchedResource], prefix: str) -> list[Diagnosis]:
    """Return the findings about lists and watches of resources."""
    tried = await asyncio.gather(*(_try(connection, one, prefix) for one in resources))
    unread = [one for one in tried if one.code not in (0, _FORBIDDEN)]
    if len(unread) == len(tried):
        text = f"{connection.host} serves no list below {prefix}, so it is no kcp, or no cache server of one"
        return [Diagnosis("error", "context", text, "check the server's URL in the kubeconfig, and the context")]
    found = []
    if refused := [one for one in tried if one.code == _FORBIDDEN]:
        names = ", ".join(one.resource.name for one in refused)
        text = f"the user may not list or watch {names} in {prefix}: {refused[0].text}"
        remedy = "give the kubeconfig of the cache server, with the user of kcp's shards"
        if prefix == EVERY_CLUSTER:
            remedy = describe_missing([one.resource for one in refused], where=[prefix], verbs=["list", "watch"])
        found.append(Diagnosis("error", "rights", text, remedy))
    for one in unread:
        text = f"{one.resource.name} cannot be read at {prefix}{one.resource.path}: {one.text}"
        found.append(Diagnosis("error", "kinds", text, "check the URL in the kubeconfig, and kcp's version"))
    readable = sum(one.code == 0 for one in tried)
    text = f"{connection.host}: {readable} of {len(tried)} kinds can be listed and watched in {prefix}"
    return [*found, Diagnosis("ok" if readable == len(tried) else "note", "context", text)]


async def _try(connection: Connection, resource: WatchedResource, prefix: str) -> _Tried:
    """Request a page and a short watch of a resource, in the best version that is served."""
    found, named = _Tried(resource, 0, ""), resource.plural
    for version in resource.in_versions():
        try:
            path = await find_list_path(connection, version, prefix)
            named = path.rpartition("/")[2]
            await connection.request("GET", path, query={"limit": "1"})
            await connection.request("GET", path, query={"watch": "true", "timeoutSeconds": "1"})
            return _Tried(version, 0, "")
        except APIError as error:
            found = _Tried(resource, error.code, str(error))
            if error.code == _FORBIDDEN:
                # kcp's authorization webhook is asked about a name with the identity.
                return found._replace(resource=resource._replace(plural=named))
    return found


async def _examine_shards(connection: Connection) -> Diagnosis:
    """Return the finding about the shards that are not read."""
    try:
        found = as_object(await connection.json("GET", f"/clusters/root{_SHARDS}"))
    except APIError:
        text = f"{connection.host} does not serve Shards in root: it may be one of several shards, the only one read"
        return Diagnosis("warning", "shards", text, _CACHE_REMEDY)
    names = ", ".join(str(as_object(one.get("metadata")).get("name")) for one in list_objects(found.get("items")))
    if ", " in names:
        text = f"the kcp has the shards {names}, and fleethook reads only the one of {connection.host}"
        return Diagnosis("warning", "shards", text, _CACHE_REMEDY)
    return Diagnosis("ok", "shards", f"the kcp has one shard: {names}")


_CONTENT: Final = tuple(("apis.kcp.io", "apiexports/content", verb) for verb in WRITE_VERBS)
_EXPORT_RIGHTS: Final = (
    *_CONTENT,
    ("apis.kcp.io", "apiexports", "get"),
    ("apis.kcp.io", "apiexportendpointslices", "list"),
    *(("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")),
    *(("", "secrets", verb) for verb in ("get", "create")),
)
"""The rights of the server in the workspace of the export."""


async def examine_export(connection: Connection, export: str) -> list[Diagnosis]:
    """Return the findings about the consumers of an APIExport; raises UnreachableError, APIError."""
    missing = await list_missing(connection, _EXPORT_RIGHTS)
    rights = Diagnosis("ok", "rights", f"the user may read APIExport {export}, and write to its consumers")
    if missing:
        rights = Diagnosis("error", "rights", "the user lacks rights of the server", describe_rules(missing))
    if any(one in _CONTENT for one in missing):
        return [rights]
    if await get_object(connection, f"{APIEXPORTS.path}/{export}") is None:
        text = f"{connection.host} has no APIExport {export}"
        return [
            rights,
            Diagnosis("error", "export", text, f"apply the output of `fleethook rules export {export}` there"),
        ]
    bindings = await read_resource(connection, CONSUMERS, prefix=EVERY_CLUSTER)
    written = [
        one
        for resource in CONFIGURATIONS
        for one in await read_resource(connection, resource, prefix=EVERY_CLUSTER)
        if one["metadata"]["name"] == name_configuration(export)
    ]
    namespace = next(filter(None, map(read_server_namespace, written)), "")
    lease = await get_object(connection, LeaseName(namespace, NAME).path) if namespace else None
    leader = describe_lease(lease, now=datetime.now(UTC))
    stopped = leader.explain_end(namespace) if namespace and leader.state != "leads" else ""
    return [rights, *judge_consumers(bindings, written, stopped=stopped)]


def judge_consumers(
    bindings: Sequence[JSONObject], written: Sequence[JSONObject], *, stopped: str
) -> Iterator[Diagnosis]:
    """Yield the findings about consumers.

    Args:
        bindings: The APIBindings of all consumers.
        written: The configurations of the server.
        stopped: Why no server holds the Lease, ``""`` if one does.
    """
    closed = {cluster_of(one) for one in written for hook in one["webhooks"] if hook.get("failurePolicy") == "Fail"}
    count = f"{len(closed)} workspace{'s' * (len(closed) != 1)}"
    if stopped:
        text = f"the server does not answer ({stopped}): kcp refuses what the rules with Fail see, in all {count}"
        yield Diagnosis("error", "outage", text, "start the server again, or run `fleethook uninstall --kcp-export`")
    elif closed:
        text = f"without the server, kcp refuses the writes that rules with Fail see, in {count}"
        yield Diagnosis("note", "outage", text, "run two replicas; kube-system and kcp's own kinds are exempt")
    judged = judge_bindings(bindings, {cluster_of(one) for one in written})
    for consumer, problem in judged:
        if problem:
            accepts = describe_state(consumer, ())[0] == "covered"
            remedy = "" if accepts else "an administrator of the workspace has to accept the claims in its APIBinding"
            yield Diagnosis("error", "workspaces", f"{consumer.name} is not covered: {problem}", remedy)
    done = sum(not problem for _, problem in judged)
    yield Diagnosis("ok" if done else "note", "workspaces", f"rules cover {done} of {len(judged)} workspaces")
