"""The registered webhooks of fleethook as ``fleethook doctor`` judges them: completeness, rules, failure policies.

No I/O.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from fleethook.cluster.registration.rule_webhooks_and_outage import SUFFIX, read_webhook
from fleethook.cluster.registration.webhook_configurations import OwnWebhook, find_conditions, list_webhooks
from fleethook.model.formats.names_and_labels import compile_selector
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSONObject, as_object
from fleethook.model.rule_matching import RuleAttributes, matches_rule, read_rules

Level = Literal["error", "warning", "unknown", "note", "ok"]

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


def name_configuration(configuration: JSONObject) -> str:
    """Return the kind and the name of a webhook configuration."""
    return f"{configuration.get('kind')} {as_object(configuration.get('metadata')).get('name')}"


def _list_names(webhooks: Sequence[RegisteredWebhook]) -> str:
    return list_names(list(dict.fromkeys(webhook.own.name for webhook in webhooks)), most=1)
