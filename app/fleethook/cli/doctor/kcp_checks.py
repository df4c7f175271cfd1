"""The checks of ``fleethook doctor --kcp``: whether the user can read all objects of a kcp that fleethook reads."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from fleethook.cli.doctor.doctor_checks import Diagnosis
from fleethook.cli.inputs.cluster_reader import describe_missing, list_missing, read_resource
from fleethook.cli.inputs.cluster_reader import describe_rules as describe_role
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.kubernetes.list_watch import EVERY_CLUSTER, EVERY_SHARD, find_list_path, read_identity
from fleethook.cluster.kubernetes.resources import (
    APIEXPORTS,
    CACHED,
    CONSUMERS,
    DISPATCHING,
    LOGICAL_CLUSTERS,
    WORKSPACES,
    WatchedResource,
)
from fleethook.cluster.leader_election import NAME, LeaseName, describe_lease
from fleethook.cluster.registration.consumers import (
    CONFIGURATIONS,
    WRITE_VERBS,
    judge_bindings,
    name_configuration,
)
from fleethook.cluster.registration.registrar import get_object
from fleethook.cluster.registration.rule_webhooks import read_server_namespace
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import cluster_of, is_system

_SHARDS: Final = "/apis/core.kcp.io/v1alpha1/shards"
_CALLER_RIGHTS: Final = (
    ("", "namespaces", "get"),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
)
_FORBIDDEN: Final = 403
_CACHE_REMEDY: Final = "give the kubeconfig of the cache server with --kcp-cache-kubeconfig"


class _Tried(NamedTuple):
    """A resource whose list and watch were requested."""

    resource: WatchedResource
    code: int
    """The HTTP status of a refusal, 0 if the resource can be read."""
    text: str
    page: JSONObject


async def examine_kcp(connection: Connection, cache: Connection | None) -> AsyncIterator[Diagnosis]:
    """Yield the findings; raises UnreachableError.

    Args:
        connection: Connection to a shard.
        cache: Connection to the cache server, None to read one shard.
    """
    tried = await _try_all(connection, DISPATCHING, EVERY_CLUSTER)
    refused = [one for one in tried if one.code == _FORBIDDEN]
    unread = [one for one in tried if one.code not in (0, _FORBIDDEN)]
    yield _judge_context(connection.host, tried)
    for found in (*_judge_refused(refused, EVERY_CLUSTER), *_judge_unread(unread, EVERY_CLUSTER)):
        yield found
    yield await _examine_identity(connection)
    clusters = next((one.page for one in tried if one.resource.name == LOGICAL_CLUSTERS.name), {})
    async for found in _examine_callers(connection, clusters):
        yield found
    async for found in _examine_shards(connection, cache):
        yield found


async def _try_all(connection: Connection, resources: Sequence[WatchedResource], prefix: str) -> list[_Tried]:
    return list(await asyncio.gather(*(_try(connection, resource, prefix) for resource in resources)))


async def _try(connection: Connection, resource: WatchedResource, prefix: str) -> _Tried:
    """Request a page and a short watch of a resource, in the best version that is served."""
    found, named = _Tried(resource, 0, "", {}), resource.plural
    for version in resource.in_versions():
        try:
            path = await find_list_path(connection, version, prefix)
            named = path.rpartition("/")[2]
            page = msgspec.json.decode(await connection.request("GET", path, query={"limit": "50"}))
            await connection.request("GET", path, query={"watch": "true", "timeoutSeconds": "1"})
            return _Tried(version, 0, "", dict(as_object(page)))
        except APIError as error:
            found = _Tried(resource, error.code, str(error), {})
            if error.code == _FORBIDDEN:
                # kcp's authorization webhook is asked about a name with the identity.
                found = found._replace(resource=resource._replace(plural=named))
                break
    return found


def _judge_context(host: str, tried: Sequence[_Tried]) -> Diagnosis:
    if all(one.code not in (0, _FORBIDDEN) for one in tried):
        remedy = "check the server's URL in the kubeconfig, and --context"
        return Diagnosis("error", "context", f"{host} is no kcp: it serves no list below {EVERY_CLUSTER}", remedy)
    readable = sum(one.code == 0 for one in tried)
    text = f"{host}: {readable} of {len(tried)} kinds can be listed and watched in all logical clusters"
    return Diagnosis("ok" if readable == len(tried) else "note", "context", text)


def _judge_refused(refused: Sequence[_Tried], prefix: str) -> Iterator[Diagnosis]:
    if refused:
        names = ", ".join(one.resource.name for one in refused)
        text = f"the user may not list or watch {names} in {prefix}: {refused[0].text}"
        remedy = "give the kubeconfig of the cache server, with the user of kcp's shards"
        if prefix == EVERY_CLUSTER:
            remedy = describe_missing([one.resource for one in refused], where=[prefix], verbs=["list", "watch"])
        yield Diagnosis("error", "rights", text, remedy)


def _judge_unread(unread: Sequence[_Tried], prefix: str) -> Iterator[Diagnosis]:
    for one in unread:
        if one.resource.name != WORKSPACES.name:  # `_examine_identity` reports these
            text = f"{one.resource.name} cannot be read at {prefix}{one.resource.path}: {one.text}"
            yield Diagnosis("error", "kinds", text, "check the server's URL in the kubeconfig, and kcp's version")


async def _examine_identity(connection: Connection) -> Diagnosis:
    try:
        identity = await read_identity(connection, WORKSPACES.export)
    except APIError as error:
        remedy = f"allow the user to get the APIExport {WORKSPACES.export} in root, or name clusters instead of paths"
        return Diagnosis("error", "identity", f"paths of workspaces cannot be followed: {error.message}", remedy)
    return Diagnosis("ok", "identity", f"Workspaces have the identity {identity}")


async def _examine_callers(connection: Connection, clusters: JSONObject) -> AsyncIterator[Diagnosis]:
    """Yield a finding about the rights that reviews need in a logical cluster, asked for in the first one."""
    items = clusters.get("items")
    names = [cluster_of(dict(as_object(item))) for item in (items if isinstance(items, list) else ())]
    cluster = next((name for name in names if name and not is_system(name)), "")
    if not cluster:
        return
    try:
        missing = await list_missing(connection, _CALLER_RIGHTS, prefix=f"/clusters/{cluster}")
    except APIError as error:
        remedy = describe_role([("authorization.k8s.io", "selfsubjectaccessreviews", "create")])
        yield Diagnosis("unknown", "rights", f"in {cluster}, kcp does not tell the user's rights: {error}", remedy)
        return
    named = ", ".join(f"{verb} {plural}" for _, plural, verb in missing)
    if missing:
        remedy = "add the rights to a role of the user; without them, namespaces and callers' tokens are unknown"
        yield Diagnosis("warning", "rights", f"in {cluster}, the user may not {named}", remedy)
    else:
        yield Diagnosis("ok", "rights", f"in {cluster}, the user may read namespaces and review tokens and access")


async def _examine_shards(connection: Connection, cache: Connection | None) -> AsyncIterator[Diagnosis]:
    if cache is not None:
        tried = await _try_all(cache, CACHED, EVERY_SHARD)
        for found in _judge_refused([one for one in tried if one.code == _FORBIDDEN], EVERY_SHARD):
            yield found._replace(check="shards")
        for one in tried:
            if one.code not in (0, _FORBIDDEN):
                text = f"the cache server {cache.host} does not serve {one.resource.name}: {one.text}"
                yield Diagnosis("error", "shards", text, "check the kubeconfig of --kcp-cache-kubeconfig")
        if not any(one.code for one in tried):
            names = await _list_shards(cache, EVERY_SHARD)
            known = f" of the shards {', '.join(names)}" if names else " of all shards"
            yield Diagnosis("ok", "shards", f"exports and webhooks{known} come from the cache server {cache.host}")
        return
    names = await _list_shards(connection, "/clusters/root")
    if names is None:
        text = f"{connection.host} does not serve Shards in root: it may be one of several shards, the only one read"
        yield Diagnosis("warning", "shards", text, _CACHE_REMEDY)
    elif len(names) > 1:
        text = f"the kcp has the shards {', '.join(names)}, and fleethook reads only the one of {connection.host}"
        yield Diagnosis("warning", "shards", text, _CACHE_REMEDY)
    else:
        yield Diagnosis("ok", "shards", f"the kcp has one shard: {', '.join(names)}")


async def _list_shards(connection: Connection, prefix: str) -> list[str] | None:
    """Return the names of the Shards, None if they cannot be read."""
    try:
        found: Mapping[str, JSON] = as_object(await connection.json("GET", f"{prefix}{_SHARDS}"))
    except APIError:
        return None
    items = found.get("items")
    listed = [as_object(as_object(item).get("metadata")) for item in (items if isinstance(items, list) else ())]
    return [str(one.get("name")) for one in listed]


_CONTENT: Final = tuple(("apis.kcp.io", "apiexports/content", verb) for verb in WRITE_VERBS)
_EXPORT_RIGHTS: Final = (
    *_CONTENT,
    ("apis.kcp.io", "apiexports", "get"),
    ("apis.kcp.io", "apiexportendpointslices", "list"),
    *(("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")),
    *(("", "secrets", verb) for verb in ("get", "create")),
)
"""The rights of the server in the workspace of the export."""


async def examine_export(connection: Connection, export: str) -> AsyncIterator[Diagnosis]:
    """Yield the findings about the consumers of an APIExport; raises UnreachableError, APIError."""
    missing = await list_missing(connection, _EXPORT_RIGHTS)
    if missing:
        yield Diagnosis("error", "rights", "the user lacks rights of the server", describe_role(missing))
    else:
        yield Diagnosis("ok", "rights", f"the user may read APIExport {export}, and write to its consumers")
    if any(one in _CONTENT for one in missing):
        return
    if await get_object(connection, f"{APIEXPORTS.path}/{export}") is None:
        text = f"{connection.host} has no APIExport {export}"
        yield Diagnosis("error", "export", text, f"apply the output of `fleethook rules export {export}` there")
        return
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
    for found in judge_consumers(bindings, written, stopped=stopped):
        yield found


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
            remedy = "an administrator of the workspace has to accept the claims in its APIBinding"
            yield Diagnosis("error", "workspaces", f"{consumer.name} is not covered: {problem}", remedy)
    done = sum(not problem for _, problem in judged)
    yield Diagnosis("ok" if done else "note", "workspaces", f"rules cover {done} of {len(judged)} workspaces")
