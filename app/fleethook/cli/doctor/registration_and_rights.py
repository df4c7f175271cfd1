"""The findings of ``fleethook doctor``: rules over the facts that `fleethook.cli.doctor.doctor` reads.

No I/O.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from fleethook.cli.inputs.cluster_reader import Right, describe_rules
from fleethook.cluster.registration.rule_webhooks_and_outage import SUFFIX, read_webhook
from fleethook.cluster.registration.webhook_configurations import OwnWebhook, find_conditions, list_webhooks
from fleethook.engine import enabled_engines, load_reference
from fleethook.model.formats.names_and_labels import compile_selector
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSONObject, as_object
from fleethook.model.rule_matching import RuleAttributes, matches_rule, read_rules
from fleethook.settings import Settings

Level = Literal["error", "warning", "unknown", "note", "ok"]

_MIN_MINOR: Final = 30  # the chart's kubeVersion
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


class Diagnosis(NamedTuple):
    """One finding.

    Attributes:
        level: ``ok``, ``note`` (nothing is wrong), ``unknown`` (it could not be examined), ``warning`` or ``error``.
        check: Name of the check, such as ``registration``.
        text: The finding.
        remedy: The action that corrects it, ``""`` if there is nothing to do.
    """

    level: Level
    check: str
    text: str
    remedy: str = ""


class RegisteredWebhook(NamedTuple):
    """A webhook of fleethook in a configuration of the cluster."""

    configuration: str
    """Kind and name."""
    own: OwnWebhook
    """Its definition in this version."""
    stored: Mapping[str, Any]

    @property
    def client_config(self) -> Mapping[str, Any]:
        """The address and the CA of the server."""
        return as_object(self.stored.get("clientConfig"))

    @property
    def service(self) -> Mapping[str, Any]:
        """The Service of the address, empty for a URL."""
        return as_object(self.client_config.get("service"))


def find_registered(configurations: Iterable[JSONObject]) -> list[RegisteredWebhook]:
    """Return fleethook's webhooks, in configurations of any name."""
    own = {one.name: one for one in list_webhooks()}
    found = []
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            name = str(webhook.get("name"))
            if name in own:
                found.append(RegisteredWebhook(name_configuration(configuration), own[name], webhook))
            elif name.endswith(SUFFIX):
                wanted = read_webhook(str(configuration.get("kind")), webhook)
                found.append(RegisteredWebhook(name_configuration(configuration), wanted, webhook))
    return found


def check_registration(registered: Sequence[RegisteredWebhook]) -> Iterator[Diagnosis]:
    """Compare the registered webhooks with those of this version."""
    if not registered:
        yield Diagnosis(
            "error", "registration", "no webhook configuration sends reviews to fleethook",
            "install the chart, or run `fleethook serve --register --webhook-url URL`",
        )  # fmt: skip
        return
    upgrade = "upgrade the chart to the version of this program, or restart the server that registers itself"
    names = [one.own.name for one in registered]
    engines = {one.own.engine for one in registered}
    faults = 0
    has_lists = any(find_conditions(dict(one.stored)) for one in registered)
    for webhook in list_webhooks():
        # Without a leader that lists subjects, installers register no optional webhooks.
        is_expected = has_lists or not webhook.advises or not webhook.gets_selected
        if webhook.engine in engines and webhook.name not in names and is_expected:
            faults += 1
            yield Diagnosis("error", "registration", f"the webhook {webhook.name} is missing", upgrade)
        if names.count(webhook.name) > 1:
            faults += 1
            where = " and ".join(one.configuration for one in registered if one.own == webhook)
            yield Diagnosis("error", "registration", f"{webhook.name} is registered in {where}", "delete one of them")
    waiting = [one for one in registered if one.own.gets_selected and not one.stored.get("rules")]
    if waiting and not has_lists:
        faults += 1
        text = (
            f"{_list_names(waiting)}: no rules yet, because no leader has listed the subjects of overriders. Until "
            "then, the apiserver sends no workload to fleethook, and refuses none"
        )
        remedy = (
            "wait until a replica is ready and leads (metric fleethook_leader); its log has the reason if it cannot "
            "write the match condition"
        )
        yield Diagnosis("error", "registration", text, remedy)
    for one in registered:
        # A webhook that fails closed has no rules while no subject needs it.
        is_idle = one in waiting and not (has_lists and one.own.advises)
        if not is_idle and not _has_rules(one):
            faults += 1
            yield Diagnosis("error", "registration", f"{one.own.name}: its rules differ from this version's", upgrade)
    if not faults:
        where = ", ".join(dict.fromkeys(one.configuration for one in registered))
        number = "1 webhook" if len(registered) == 1 else f"{len(registered)} webhooks"
        text = f"{number} of {', '.join(sorted(engines))} in {where}"
        yield Diagnosis("ok", "registration", text)


def _has_rules(one: RegisteredWebhook) -> bool:
    """Return whether a webhook is called for the objects and operations of its definition."""
    own = one.own
    if own.name.endswith(SUFFIX):
        return bool(one.stored.get("rules"))  # Only its server knows them.
    resources = [GroupVersionResource(own.group, own.version, name) for name in own.resources]
    return all(
        is_called(one.stored, operation, resource, namespaced=own.scope == "Namespaced")
        for operation in own.operations
        for resource in resources
    )


def is_called(
    webhook: Mapping[str, Any], operation: str, resource: GroupVersionResource, *, namespaced: bool = True
) -> bool:
    """Return whether the rules of a webhook in a configuration match an operation on a resource."""
    attributes = RuleAttributes(operation, resource, "", namespaced=namespaced)
    return any(matches_rule(rule, attributes) for rule in read_rules(webhook))


def check_policies(registered: Sequence[RegisteredWebhook]) -> Iterator[Diagnosis]:
    """Compare failure policies with those of this version, and look for a server that blocks its own start."""
    opened = [one for one in registered if not one.own.advises and one.stored.get("failurePolicy") == "Ignore"]
    closed = [one for one in registered if one.own.advises and one.stored.get("failurePolicy") != "Ignore"]
    if opened:
        text = f"{_list_names(opened)}: failurePolicy Ignore admits objects unchecked while no server answers"
        yield Diagnosis("warning", "failure-policy", text, "set the chart's webhooks.failurePolicy to Fail")
    if closed:
        text = f"{_list_names(closed)}: failurePolicy Fail refuses writes that this webhook only advises on"
        yield Diagnosis("warning", "failure-policy", text, "set failurePolicy of these webhooks to Ignore")
    blocking = [one for one in registered if _blocks_itself(one)]
    if blocking:
        text = f"{_list_names(blocking)}: the apiserver sends objects of the server's own namespace to the server"
        remedy = "exclude the namespace with namespaceSelector; otherwise a stopped server cannot start again"
        yield Diagnosis("warning", "failure-policy", text, remedy)
    if registered and not (opened or closed or blocking):
        yield Diagnosis("ok", "failure-policy", "policies of this version; the server's own namespace is exempt")


def _blocks_itself(one: RegisteredWebhook) -> bool:
    namespace = one.service.get("namespace")
    if not namespace or one.own.scope == "Cluster" or one.stored.get("failurePolicy") == "Ignore":
        return False
    return compile_selector(one.stored.get("namespaceSelector") or {})({_NAMESPACE_LABEL: namespace})


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


def name_configuration(configuration: JSONObject) -> str:
    """Return the kind and the name of a webhook configuration."""
    return f"{configuration.get('kind')} {as_object(configuration.get('metadata')).get('name')}"


def _list_names(webhooks: Sequence[RegisteredWebhook]) -> str:
    return list_names(list(dict.fromkeys(webhook.own.name for webhook in webhooks)), most=1)
