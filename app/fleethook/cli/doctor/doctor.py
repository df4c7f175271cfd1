"""``fleethook doctor``: examine the registration with an apiserver or a kcp, and name a remedy for each fault."""

import asyncio
import re
from collections.abc import Awaitable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple, get_args

from fleethook.cli.command_line import CHECK_FAILED, Option, fail
from fleethook.cli.doctor.registered_webhooks import (
    Diagnosis,
    Level,
    RegisteredWebhook,
    check_policies,
    check_registration,
    find_registered,
)
from fleethook.cli.doctor.webhook_reachability import OUTAGE, CallExaminer, list_probes
from fleethook.cli.inputs.cluster_reader import Right, describe_rules, list_missing, read_resource
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.options import KcpExportOption, Output, StrictOption, TextOutputOption
from fleethook.cli.output.findings_output import count_levels
from fleethook.cli.output.text_output import styled, write_json, write_styled
from fleethook.cluster.api_errors import FORBIDDEN, APIError, UnreachableError, get_object
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_CLUSTER
from fleethook.cluster.kubernetes.watched_resources import APIEXPORTS, CONSUMERS
from fleethook.cluster.leader_election import NAME, LeaseName, describe_lease
from fleethook.cluster.registration.consumer_bindings_and_webhooks import (
    CONFIGURATIONS,
    WRITE_VERBS,
    describe_state,
    judge_bindings,
    name_configuration,
)
from fleethook.cluster.registration.rule_webhooks_and_outage import read_server_namespace
from fleethook.cluster.registration.webhook_configurations import API_VERSION, MUTATING, VALIDATING
from fleethook.engine import enabled_engines, load_reference
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.settings import Settings

_MIN_MINOR: Final = 30  # the chart's kubeVersion
_STYLES: Final = {"ok": "green", "note": "cyan", "unknown": "magenta", "warning": "yellow", "error": "bold red"}


def doctor(
    examined: TargetOptions = TargetOptions(),
    namespace: Annotated[
        str, Option("--namespace", "-n", help="Namespace of the dry runs; fleethook's own is usually exempt.")
    ] = "default",
    kcp_export: KcpExportOption = None,
    strict: StrictOption = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Examine the registration of fleethook with an apiserver, and name a remedy for each fault.

    The checks: the version of the apiserver, webhook configurations, CAs, failure policies, webhooks of others on the
    same objects, the definition of overriders, the Service, reachability, and the rights of the server. For
    reachability, the command asks the apiserver to create objects that fleethook refuses, as dry runs. It stores
    nothing. Without such a dry run, it calls the URLs of the webhooks itself.

    Without --kubeconfig, --context and --in-cluster, the cluster is that of kubectl: $KUBECONFIG, or ~/.kube/config.

    The findings of a text begin with errors. A check that was not possible, for example because the user has no right,
    is unknown.

    With --kcp-export, the command examines the rights of a provider, and whether the rules of the server cover each
    consumer.

    Exit codes: 0 success; 1 errors, or with --strict also warnings and checks that were not possible; 2 invalid
    arguments, or the cluster cannot be read.
    """
    target = examined.find()

    async def examine() -> list[Diagnosis]:
        async with target.connect(export=kcp_export) as connection:
            if kcp_export is not None:
                return await examine_export(connection, kcp_export)
            return await Doctor(connection, namespace=namespace).examine()

    try:
        found = asyncio.run(examine())
    except (APIError, UnreachableError) as error:
        is_refused = kcp_export is None and isinstance(error, APIError) and error.code == FORBIDDEN
        least = "; the least right is to list webhook configurations" if is_refused else ""
        fail(f"cannot examine the cluster, so nothing is known about an outage: {error}{least}")
    if output is Output.JSON:
        write_json([one._asdict() for one in found])
    else:
        _print(found)
    failing = ("error", "warning", "unknown") if strict else ("error",)
    if any(one.level in failing for one in found):
        raise SystemExit(CHECK_FAILED)


def _print(found: Sequence[Diagnosis]) -> None:
    for one in sorted(found, key=lambda one: (get_args(Level).index(one.level), one.check != OUTAGE)):
        head = styled(f"{one.level:<8}", _STYLES[one.level])
        write_styled(head, styled(f"{one.check}: {one.text}"))
        if one.remedy:
            write_styled(styled(f"         → {one.remedy}", "dim"))
    unknown = sum(one.level == "unknown" for one in found)
    write_styled(styled(f"{count_levels(one.level for one in found)}{f', {unknown} not examined' if unknown else ''}"))


async def run_allowed(check: str, examination: Awaitable[list[Diagnosis]]) -> list[Diagnosis]:
    """Return the findings of a check, or an unknown if the user has no right to read its objects."""
    try:
        return await examination
    except APIError as error:
        if error.code != FORBIDDEN:
            raise
        return [Diagnosis("unknown", check, f"not examined: {error.message}", "give the user this right")]


def check_version(major: str, minor: str, git_version: str) -> Diagnosis:
    """Check the version of the apiserver."""
    number = re.match(r"\d*", minor)
    is_old = major == "1" and number is not None and int(number[0] or 0) < _MIN_MINOR
    if is_old:
        text = f"kube-apiserver {git_version} is older than 1.{_MIN_MINOR}, so match conditions may not work"
        return Diagnosis("error", "versions", text, "upgrade the cluster")
    return Diagnosis("ok", "versions", f"kube-apiserver {git_version}")


_SERVICE: Final = "service"
_DEFAULT_PORT: Final = 443


class ServiceName(NamedTuple):
    """A Service that webhooks name, and the port."""

    namespace: str
    name: str
    port: int


def find_services(registered: Iterable[RegisteredWebhook]) -> list[ServiceName]:
    """Return the Services that webhooks name, sorted."""
    named = [one.service for one in registered if one.service]
    return sorted(
        {ServiceName(str(one["namespace"]), str(one["name"]), int(one.get("port") or _DEFAULT_PORT)) for one in named}
    )


def check_service(name: ServiceName, service: JSONObject | None, slices: Sequence[JSONObject]) -> Diagnosis:
    """Check that a Service has the port that webhooks name, and a ready endpoint."""
    shown = f"{name.namespace}/{name.name}"
    if service is None:
        remedy = "install the chart in this namespace, or correct clientConfig.service of the webhooks"
        return Diagnosis("error", _SERVICE, f"the Service {shown} of the webhooks does not exist", remedy)
    ports = [as_object(port).get("port") for port in as_object(service.get("spec")).get("ports") or ()]
    if name.port not in ports:
        present = ", ".join(map(str, ports)) or "none"
        text = f"the webhooks name port {name.port} of the Service {shown}, which has {present}"
        return Diagnosis("error", _SERVICE, text, "correct the port of the webhooks or of the Service")
    ready = _count_ready(slices)
    if not ready:
        remedy = "find out why no Pod is ready: `kubectl describe pod`, the log of the server, GET /readyz"
        return Diagnosis("error", _SERVICE, f"the Service {shown} has no ready endpoint", remedy)
    return Diagnosis("ok", _SERVICE, f"the Service {shown} has {ready} ready endpoint{'' if ready == 1 else 's'}")


def _count_ready(slices: Iterable[JSONObject]) -> int:
    """Return the number of ready addresses. An absent condition means ready (discovery.k8s.io/v1)."""
    endpoints = [as_object(endpoint) for each in slices for endpoint in each.get("endpoints") or ()]
    return sum(
        len(endpoint.get("addresses") or ())
        for endpoint in endpoints
        if as_object(endpoint.get("conditions")).get("ready") is not False
    )


def find_accounts(pods: Iterable[JSONObject]) -> set[str]:
    """Return the service accounts of Pods as ``NAMESPACE/NAME``."""
    found = set()
    for pod in pods:
        namespace, spec = as_object(pod.get("metadata")).get("namespace"), as_object(pod.get("spec"))
        found.add(f"{namespace}/{spec.get('serviceAccountName') or 'default'}")
    return found


def list_rights(engines: Collection[str]) -> list[Right]:
    """Return the rights to follow the kinds on which the answers of these engines depend."""
    settings = Settings.model_construct()
    followed = [load_reference(one.resources)(settings) for one in enabled_engines(engines) if one.resources]
    kinds = dict.fromkeys((one.group, one.plural) for each in followed for one in each.needed if one.only is None)
    return [(group, plural, verb) for group, plural in kinds for verb in ("list", "watch")]


def judge_rights(account: str, missing: Sequence[Right], checked: int) -> Diagnosis:
    """Return the finding about the rights of a service account, ``NAMESPACE/NAME``."""
    if missing:
        text = f"the service account {account} lacks {len(missing)} of the {checked} rights that the server needs"
        return Diagnosis("error", "rights", text, describe_rules(missing, subject="the service account"))
    return Diagnosis("ok", "rights", f"the service account {account} has all {checked} rights that were checked")


class Doctor:
    """Examines the registration of fleethook with one apiserver.

    Attributes:
        connection: Connection to the apiserver.
        accounts: Service accounts of the servers, ``NAMESPACE/NAME``.
    """

    def __init__(self, connection: Connection, *, namespace: str) -> None:
        """Store the arguments.

        Args:
            connection: Connection to the apiserver.
            namespace: Namespace of the dry runs.
        """
        self.connection: Final = connection
        self.accounts: Final[set[str]] = set()
        self._namespace: Final = namespace

    async def examine(self) -> list[Diagnosis]:
        """Return the findings; raises UnreachableError, and APIError without the right to list webhooks."""
        version = as_object(await self.connection.json("GET", "/version"))
        configurations = [*await self._list_configurations(MUTATING), *await self._list_configurations(VALIDATING)]
        registered = find_registered(configurations)
        engines = {one.own.engine for one in registered}
        found = [
            check_version(*(str(version.get(name) or "") for name in ("major", "minor", "gitVersion"))),
            *check_registration(registered),
            *check_policies(registered),
        ]
        # The user may lack the right to read any of the other objects.
        for engine in enabled_engines(engines):
            if engine.doctor:
                found += await load_reference(engine.doctor)(self, configurations)
        services = {
            f"{name.namespace}/{name.name}:{name.port}": one
            for name in find_services(registered)
            for one in await run_allowed("service", self._examine_service(name))
        }
        examiner = CallExaminer(self.connection, registered, namespace=self._namespace)
        found += [one async for one in examiner.examine(list_probes(engines), services)]
        for account in sorted(self.accounts):
            found += await run_allowed("rights", self._examine_rights(account, engines))
        return found

    async def _list_configurations(self, kind: str) -> list[JSONObject]:
        return [{**item, "kind": kind} for item in await self.list_items(f"/apis/{API_VERSION}/{kind.lower()}s")]

    async def _examine_service(self, name: ServiceName) -> list[Diagnosis]:
        """Return the finding about a Service, and add its Pods and their service accounts."""
        core = f"/api/v1/namespaces/{name.namespace}"
        service = await get_object(self.connection, f"{core}/services/{name.name}")
        slices = await self.list_items(
            f"/apis/discovery.k8s.io/v1/namespaces/{name.namespace}/endpointslices",
            f"kubernetes.io/service-name={name.name}",
        )
        selector = as_object(as_object((service or {}).get("spec")).get("selector"))
        if selector:
            labels = ",".join(f"{key}={value}" for key, value in selector.items())
            pods = await self.list_items(f"{core}/pods", labels)
            self.accounts.update(find_accounts(pods))
        return [check_service(name, service, slices)]

    async def list_items(self, path: str, selector: str = "") -> list[JSONObject]:
        """Return the objects at a path that a label selector matches; raises APIError and UnreachableError."""
        query = {"labelSelector": selector} if selector else None
        found = as_object(await self.connection.json("GET", path, query=query))
        return list(found.get("items") or ())

    async def _examine_rights(self, account: str, engines: Collection[str]) -> list[Diagnosis]:
        """Return the finding about the rights of a service account, ``NAMESPACE/NAME``."""
        namespace, _, name = account.partition("/")
        user = f"system:serviceaccount:{namespace}:{name}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        rights = list_rights(engines)
        missing = await list_missing(self.connection, rights, subject={"user": user, "groups": groups})
        return [judge_rights(account, missing, len(rights))]


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
