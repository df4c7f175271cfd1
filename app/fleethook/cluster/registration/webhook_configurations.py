"""The webhook configurations of this server: rules, match conditions and failure policies.

``failurePolicy: Fail`` is safe because the match conditions exclude all other objects: see docs/failure-policy.md.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from fleethook.engine import enabled_engines, installed_engines, load_reference
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL
from fleethook.model.json import JSON, JSONObject

if TYPE_CHECKING:  # Commands that read the definitions in this package start faster without pydantic.
    from fleethook.settings import Settings


def find_exempt_namespaces(settings: "Settings", namespace: str) -> list[str]:
    """Return the exempt namespaces: that of this server, so that it can be repaired while it does not respond.

    Args:
        settings: The settings of the server. A server outside of the cluster, which is reached by a URL, has no pods,
            so no namespace is exempt.
        namespace: The namespace of the pod, for a server in the cluster that is reached by a URL.
    """
    if settings.service:
        return [settings.service.partition("/")[0]]
    return [namespace] if settings.in_cluster else []


API_VERSION: Final = "admissionregistration.k8s.io/v1"
CONFIGURATION_NAME: Final = "fleethook"
MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"

DEFAULT_TIMEOUT: Final = 5
NOT_DELETING: Final = {"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}
"""No webhook may block a deletion: the removal of a finalizer is an UPDATE."""
BOUND_CONDITION: Final = "bound-to-an-overrider"
"""The name of the condition that the leader adds."""


class ServiceReference(NamedTuple):
    """The Service in front of this server."""

    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> JSONObject:
        """Return ``clientConfig`` for a webhook at ``path``, without its caBundle."""
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}

    def names(self) -> list[str]:
        """Return the DNS names of the Service inside the cluster."""
        return [
            f"{self.name}.{self.namespace}.svc",
            f"{self.name}.{self.namespace}.svc.cluster.local",
            f"{self.name}.{self.namespace}",
            self.name,
        ]


class URLReference(NamedTuple):
    """The URL of this server outside the cluster; ``suffix`` follows each path."""

    base: str
    suffix: str = ""

    def client_config(self, path: str) -> JSONObject:
        """Return ``clientConfig`` for a webhook at ``path``, without its caBundle."""
        return {"url": self.base.rstrip("/") + path + self.suffix}


Reference = ServiceReference | URLReference


def service_of(text: str) -> ServiceReference:
    """Return the Service that ``NAMESPACE/NAME[:PORT]`` names."""
    namespace, _, rest = text.partition("/")
    name, _, port = rest.partition(":")
    return ServiceReference(namespace, name, int(port or 443))


def find_reference(settings: "Settings") -> Reference:
    """Return the address of the server in its settings."""
    if settings.webhook_url is not None:
        return URLReference(settings.webhook_url)
    assert settings.service is not None
    return service_of(settings.service)


class OwnWebhook(NamedTuple):
    """One webhook of a configuration."""

    name: str
    configuration: Literal["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    path: str
    group: str
    version: str
    resources: tuple[str, ...]
    object_selector: JSONObject
    conditions: tuple[JSONObject, ...]
    scope: Literal["Namespaced", "Cluster", "*"] = "Namespaced"
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    """With Equivalent, kube-apiserver converts and sends objects of other versions, too."""
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    engine: str = ""
    """The engine that handles the reviews, which `list_webhooks` adds."""
    namespace_selector: JSONObject = {}  # noqa: RUF012 - never modified
    timeout: int = DEFAULT_TIMEOUT
    """Seconds that kube-apiserver waits for the answer."""
    further: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Further groups with their version and resources."""
    gets_selected: bool = False
    """Whether the leader adds rules and conditions: `fleethook.engines.overrider.subject.match_condition_texts`.

    Installers register such webhooks without rules, so kube-apiserver sends nothing until the leader has listed the
    subjects. An installation whose replicas never become ready refuses no workload.
    """

    @property
    def advises(self) -> bool:
        """Whether a failed call may be ignored: a later review refuses the same problem, or deletions must go on."""
        return self.failure_policy == "Ignore"


def list_webhooks(engines: Collection[str] | None = None) -> tuple[OwnWebhook, ...]:
    """Return the webhooks of some engines, or of all installed ones, in the order of the engines."""
    found = enabled_engines(installed_engines() if engines is None else engines)
    return tuple(
        webhook._replace(engine=engine.name)
        for engine in found
        if engine.webhooks
        for webhook in load_reference(engine.webhooks)()
    )


LABELS: Final = {"app.kubernetes.io/name": "fleethook"}


def configuration_path(kind: str, name: str = CONFIGURATION_NAME, api_version: str = API_VERSION) -> str:
    """Return the API path of a configuration of this server."""
    return f"/apis/{api_version}/{kind.lower()}s/{name}"


def find_conditions(webhook: JSONObject) -> list[JSONObject]:
    """Return the conditions of a registered webhook that the leader has added."""
    return [condition for condition in webhook.get("matchConditions") or () if condition["name"] == BOUND_CONDITION]


def webhook_configurations(
    reference: Reference,
    *,
    exempt_namespaces: Sequence[str] = (),
    engines: Collection[str] | None = None,
    selecting: bool = True,
) -> list[JSONObject]:
    """Return the webhook configurations without ``caBundle``, which `fleethook.cluster.registration.registrar` adds.

    Args:
        reference: The Service or URL of this server.
        exempt_namespaces: Namespaces whose objects are never sent. They should include the namespace of this server,
            so that it can be started, scaled and repaired while it does not respond.
        engines: The enabled engines; the webhooks of others are not registered. None for all installed engines.
        selecting: Whether a leader adds the rules of some webhooks (`OwnWebhook.gets_selected`). Otherwise all
            workloads of OpenYurt are sent, and the optional webhooks are not registered.
    """
    webhooks = [
        webhook for webhook in list_webhooks(engines) if selecting or not (webhook.advises and webhook.gets_selected)
    ]
    return [
        build_configuration(
            CONFIGURATION_NAME, kind, webhooks, reference, exempt=exempt_namespaces, selecting=selecting
        )
        for kind in (MUTATING, VALIDATING)
        if any(webhook.configuration == kind for webhook in webhooks)
    ]


def build_configuration(
    name: str,
    kind: str,
    webhooks: Sequence[OwnWebhook],
    reference: Reference,
    *,
    exempt: Sequence[str],
    selecting: bool = True,
) -> JSONObject:
    """Return a webhook configuration with those of some webhooks that belong to its kind, without ``caBundle``.

    Args:
        name: The name of the configuration.
        kind: `MUTATING` or `VALIDATING`.
        webhooks: The webhooks in their order.
        reference: The Service or URL of this server.
        exempt: Namespaces whose objects are never sent.
        selecting: Whether a leader adds the rules of some webhooks (`OwnWebhook.gets_selected`).
    """
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "webhooks": [
            _webhook(webhook, reference, exempt=exempt, selecting=selecting)
            for webhook in webhooks
            if webhook.configuration == kind
        ],
    }


def build_rules(webhook: OwnWebhook) -> list[JSONObject]:
    """Return the rules of a webhook, as a configuration has them."""
    return [
        {
            "apiGroups": [group],
            "apiVersions": [version],
            "operations": list(webhook.operations),
            "resources": list(resources),
            "scope": webhook.scope,
        }
        for group, version, resources in ((webhook.group, webhook.version, webhook.resources), *webhook.further)
    ]


def exclude_namespaces(selector: JSONObject, exempt: Sequence[str]) -> JSONObject:
    """Return a selector of namespaces without the exempt ones."""
    if not exempt:
        return selector
    excluded = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": list(exempt)}
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), excluded]}


def _webhook(
    webhook: OwnWebhook, reference: Reference, *, exempt: Sequence[str] = (), selecting: bool = True
) -> JSONObject:
    rendered: JSONObject = {
        "name": webhook.name,
        "clientConfig": reference.client_config(webhook.path),
        "rules": build_rules(webhook),
        "namespaceSelector": exclude_namespaces(webhook.namespace_selector, exempt),
        "objectSelector": webhook.object_selector,
        "matchConditions": list(webhook.conditions),
        "matchPolicy": webhook.match_policy,
        "failurePolicy": webhook.failure_policy,
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": webhook.timeout,
        "admissionReviewVersions": ["v1", "v1beta1"],
    }
    if selecting and webhook.gets_selected:
        del rendered["rules"]
    if webhook.configuration == MUTATING:
        # A later webhook may add a container that an overrider changes.
        rendered["reinvocationPolicy"] = "IfNeeded"
    return rendered


def ca_bundles(bundle: str) -> list[JSONObject]:
    """Return the objects that set ``caBundle`` of each webhook, and no other field, by server-side apply.

    Args:
        bundle: The certificate authorities, PEM in base64.
    """

    def member(webhook: OwnWebhook) -> JSON:
        return {"name": webhook.name, "clientConfig": {"caBundle": bundle}}

    return [
        {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": CONFIGURATION_NAME},
            "webhooks": [member(webhook) for webhook in list_webhooks() if webhook.configuration == kind],
        }
        for kind in (MUTATING, VALIDATING)
    ]


@functools.cache
def list_definitions() -> Mapping[str, Sequence[JSONObject]]:
    """Return the CustomResourceDefinitions of each engine that has some. `make schemas` writes ``definitions.json``."""
    found: Mapping[str, Sequence[JSONObject]] = msgspec.json.decode(
        Path(__file__).with_name("definitions.json").read_bytes()
    )
    return found
