"""The checks of ``fleethook doctor --kcp-export``: the rights of a provider, and the workspaces with rules."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from fleethook.cli.doctor.doctor_checks import Diagnosis
from fleethook.cli.inputs.cluster_reader import describe_rules, list_missing, read_resource
from fleethook.cluster.api_errors import get_object
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.list_pages_and_watch_events import EVERY_CLUSTER
from fleethook.cluster.kubernetes.watched_resources import APIEXPORTS, CONSUMERS
from fleethook.cluster.leader_election import NAME, LeaseName, describe_lease
from fleethook.cluster.registration.consumer_webhooks import (
    CONFIGURATIONS,
    WRITE_VERBS,
    describe_state,
    judge_bindings,
    name_configuration,
)
from fleethook.cluster.registration.python_rule_webhooks import read_server_namespace
from fleethook.model.json import JSONObject
from fleethook.model.kcp import cluster_of

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
    return [rights, *judge_consumers(export, bindings, written, stopped=stopped)]


def judge_consumers(
    export: str, bindings: Sequence[JSONObject], written: Sequence[JSONObject], *, stopped: str
) -> Iterator[Diagnosis]:
    """Yield the findings about consumers.

    Args:
        export: The name of their APIExport.
        bindings: The APIBindings of all consumers.
        written: The configurations of the server.
        stopped: Why no server holds the Lease, ``""`` if one does.
    """
    closed = {cluster_of(one) for one in written for hook in one["webhooks"] if hook.get("failurePolicy") == "Fail"}
    count = f"{len(closed)} workspace{'s' * (len(closed) != 1)}"
    if stopped:
        text = f"the server does not answer ({stopped}): kcp refuses what the rules with Fail see, in {count}"
        remedy = f"start the server again, or run `fleethook uninstall --kcp-export {export}`"
        yield Diagnosis("error", "outage", text, remedy)
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
