"""The webhook configurations: which objects an apiserver sends here, and what it does when nobody answers.

``failurePolicy: Fail`` is safe because of what is *not* sent: docs/failure-policy.md goes through it.
"""

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from app.model import karmada, operator
from app.model.json import JSON, JSONObject
from app.model.openyurt import GROUP, POOL_NAME_LABEL, VERSION, VERSION_V1BETA1
from app.registration.match_conditions import OWNED
from app.registration.paths import (
    MUTATE_DEPLOYMENT,
    MUTATE_KARMADA,
    MUTATE_OVERRIDER,
    MUTATE_STATEFULSET,
    VALIDATE_APP_DAEMON,
    VALIDATE_APP_SET,
    VALIDATE_APP_SET_V1BETA1,
    VALIDATE_CONFIG_MAP,
    VALIDATE_CUSTOMIZATION,
    VALIDATE_HOOKS,
    VALIDATE_KARMADA,
    VALIDATE_OVERRIDER,
)

API_VERSION: Final = "admissionregistration.k8s.io/v1"
CONFIGURATION_NAME: Final = "fleethook"
MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"

_TIMEOUT_SECONDS: Final = 5
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"

# A workload being deleted must go whatever an overrider says; a finalizer's removal is an UPDATE, too.
_NOT_DELETING: Final = {"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}

# Status and metadata of a subject do not change the rendering.
_SPEC_CHANGES: Final = {"name": "spec-changes", "expression": "oldObject == null || object.spec != oldObject.spec"}

# ConfigMaps of other names are never sent here, so they do not depend on anybody's answer.
_KARMADA_CONFIG: Final = {
    "name": "is-karmada-config", "expression": f"object.metadata.name == '{karmada.CONFIG_MAP_NAME}'"
}  # fmt: skip


class ServiceReference(NamedTuple):
    """The Service in front of this server."""

    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> JSONObject:
        """Return ``clientConfig`` for a webhook at ``path``, without its caBundle."""
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}

    def names(self) -> list[str]:
        """Return the names that an apiserver and others in the cluster call the Service by."""
        return [
            f"{self.name}.{self.namespace}.svc",
            f"{self.name}.{self.namespace}.svc.cluster.local",
            f"{self.name}.{self.namespace}",
            self.name,
        ]


class URLReference(NamedTuple):
    """This server at an address of its own, outside the cluster."""

    base: str

    def client_config(self, path: str) -> JSONObject:
        """Return ``clientConfig`` for a webhook at ``path``, without its caBundle."""
        return {"url": self.base.rstrip("/") + path}


Reference = ServiceReference | URLReference


def service_of(text: str) -> ServiceReference:
    """Return the Service that ``NAMESPACE/NAME[:PORT]`` names."""
    namespace, _, rest = text.partition("/")
    name, _, port = rest.partition(":")
    return ServiceReference(namespace, name, int(port or 443))


class Webhook(NamedTuple):
    """One webhook of a configuration."""

    engine: str
    """The engine that answers; switched off, it is not registered."""
    name: str
    configuration: Literal["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    path: str
    group: str
    version: str
    resources: tuple[str, ...]
    object_selector: JSONObject
    conditions: tuple[JSONObject, ...]
    scope: Literal["Namespaced", "Cluster"] = "Namespaced"
    advises: bool = False
    """Whether a request may go on without an answer, because whatever is refused here is refused again later."""
    side_effects: Literal["None", "NoneOnDryRun"] = "None"


_POOLED: Final[JSONObject] = {"matchExpressions": [{"key": POOL_NAME_LABEL, "operator": "Exists"}]}

WEBHOOKS: Final = (
    Webhook(
        "overrider", "deployments.overrider.fleethook.io", MUTATING, MUTATE_DEPLOYMENT, "apps", "v1", ("deployments",),
        _POOLED, (_NOT_DELETING, OWNED),
    ),
    Webhook(
        "overrider", "statefulsets.overrider.fleethook.io", MUTATING, MUTATE_STATEFULSET, "apps", "v1",
        ("statefulsets",), _POOLED, (_NOT_DELETING, OWNED),
    ),
    Webhook(
        "overrider", "defaults.yurtappoverrider.fleethook.io", MUTATING, MUTATE_OVERRIDER, GROUP, VERSION,
        ("yurtappoverriders",), {}, (_NOT_DELETING,),
    ),
    Webhook(
        "overrider", "rules.yurtappoverrider.fleethook.io", VALIDATING, VALIDATE_OVERRIDER, GROUP, VERSION,
        ("yurtappoverriders",), {}, (_NOT_DELETING,),
        # The subject of a new overrider is announced: `app.registration.announcer`.
        side_effects="NoneOnDryRun",
    ),
    Webhook(
        "overrider", "fit.yurtappset.fleethook.io", VALIDATING, VALIDATE_APP_SET, GROUP, VERSION,
        ("yurtappsets",), {}, (_NOT_DELETING, _SPEC_CHANGES), advises=True,
    ),
    # An apiserver sends an edit in the version in which it was made, if that version is registered.
    Webhook(
        "overrider", "fit.v1beta1.yurtappset.fleethook.io", VALIDATING, VALIDATE_APP_SET_V1BETA1, GROUP,
        VERSION_V1BETA1, ("yurtappsets",), {}, (_NOT_DELETING, _SPEC_CHANGES), advises=True,
    ),
    Webhook(
        "overrider", "fit.yurtappdaemon.fleethook.io", VALIDATING, VALIDATE_APP_DAEMON, GROUP, VERSION,
        ("yurtappdaemons",), {}, (_NOT_DELETING, _SPEC_CHANGES), advises=True,
    ),
    Webhook(
        "interpret", "rules.hooks.interpret.fleethook.io", VALIDATING, VALIDATE_HOOKS, karmada.GROUP, karmada.VERSION,
        ("resourceexploringwebhookconfigurations", "resourceinterpreterwebhookconfigurations"), {}, (_NOT_DELETING,),
        "Cluster",
    ),
    Webhook(
        "interpret", "rules.customizations.interpret.fleethook.io", VALIDATING, VALIDATE_CUSTOMIZATION, karmada.GROUP,
        karmada.VERSION, ("resourceinterpretercustomizations",), {}, (_NOT_DELETING,), "Cluster",
    ),
    Webhook(
        "interpret", "karmada-config.interpret.fleethook.io", VALIDATING, VALIDATE_CONFIG_MAP, "", "v1",
        ("configmaps",), {}, (_NOT_DELETING, _KARMADA_CONFIG),
    ),
    Webhook(
        "crds", "defaults.karmada.crds.fleethook.io", MUTATING, MUTATE_KARMADA, operator.GROUP, operator.VERSION,
        ("karmadas",), {}, (_NOT_DELETING,),
    ),
    Webhook(
        "crds", "rules.karmada.crds.fleethook.io", VALIDATING, VALIDATE_KARMADA, operator.GROUP, operator.VERSION,
        ("karmadas",), {}, (_NOT_DELETING,),
    ),
)  # fmt: skip


SELECTED: Final = tuple(webhook.name for webhook in WEBHOOKS if OWNED in webhook.conditions)
"""The webhooks that the leader adds the condition of `app.registration.match_conditions` to."""

LABELS: Final = {"app.kubernetes.io/name": "fleethook"}


def configuration_path(kind: str) -> str:
    """Return where an apiserver keeps this server's configuration of a kind."""
    return f"/apis/{API_VERSION}/{kind.lower()}s/{CONFIGURATION_NAME}"


def webhook_templates() -> list[JSONObject]:
    """Return the configurations without what an installation decides: for the chart, which adds it.

    Each webhook has ``engine`` and ``path`` beside its members of the API.
    """
    decided = ("clientConfig", "namespaceSelector", "failurePolicy", "timeoutSeconds")
    templates: list[JSONObject] = []
    for kind in (MUTATING, VALIDATING):
        made = []
        for webhook in WEBHOOKS:
            if webhook.configuration == kind:
                rendered = _webhook(webhook, ServiceReference("", ""), namespaces={})
                kept = {name: value for name, value in rendered.items() if name not in decided}
                # The chart's value is for the other webhooks.
                own = {"failurePolicy": rendered["failurePolicy"]} if webhook.advises else {}
                made.append({"engine": webhook.engine, "path": webhook.path, **kept, **own})
        templates.append({"kind": kind, "name": CONFIGURATION_NAME, "webhooks": made})
    return templates


ENGINES: Final = frozenset(webhook.engine for webhook in WEBHOOKS)


def webhook_configurations(
    reference: Reference, *, exempt_namespaces: Sequence[str] = (), engines: Collection[str] = ENGINES
) -> list[JSONObject]:
    """Return the webhook configurations, without ``caBundle``: that is kept by `ca_bundles`.

    Args:
        reference: Where an apiserver finds this server.
        exempt_namespaces: Namespaces whose objects are never sent here: at least the one this server runs in, so that
            it can be started, scaled and repaired while nobody answers.
        engines: What is served; the rest is not registered.
    """
    namespaces: JSONObject = {}
    if exempt_namespaces:
        excluded = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": list(exempt_namespaces)}
        namespaces = {"matchExpressions": [excluded]}
    return [
        {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": CONFIGURATION_NAME, "labels": dict(LABELS)},
            "webhooks": [
                _webhook(webhook, reference, namespaces=namespaces)
                for webhook in WEBHOOKS
                if webhook.configuration == kind and webhook.engine in engines
            ],
        }
        for kind in (MUTATING, VALIDATING)
        if any(webhook.configuration == kind and webhook.engine in engines for webhook in WEBHOOKS)
    ]


def _webhook(webhook: Webhook, reference: Reference, *, namespaces: JSONObject) -> JSONObject:
    rendered: JSONObject = {
        "name": webhook.name,
        "clientConfig": reference.client_config(webhook.path),
        "rules": [
            {
                "apiGroups": [webhook.group],
                "apiVersions": [webhook.version],
                "resources": list(webhook.resources),
                "operations": ["CREATE", "UPDATE"],
                "scope": webhook.scope,
            }
        ],
        "namespaceSelector": namespaces,
        "objectSelector": webhook.object_selector,
        "matchConditions": list(webhook.conditions),
        # A rule for one version also takes objects written in another: they are converted before they are sent. A
        # conversion that fails refuses the request, whatever the failurePolicy is, so advice does without.
        "matchPolicy": "Exact" if webhook.advises else "Equivalent",
        # The workloads that an edit of a subject breaks are refused one by one later, so the edit need not wait for us.
        "failurePolicy": "Ignore" if webhook.advises else "Fail",
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1", "v1beta1"],
    }
    if webhook.configuration == MUTATING:
        # Another webhook may add a container after us that an override is about.
        rendered["reinvocationPolicy"] = "IfNeeded"
    return rendered


def ca_bundles(bundle: str) -> list[JSONObject]:
    """Return what server-side apply sets so that an apiserver trusts this server: ``caBundle`` and nothing else.

    Args:
        bundle: The trusted authorities, PEM in base64, as the member holds it.
    """

    def member(webhook: Webhook) -> JSON:
        return {"name": webhook.name, "clientConfig": {"caBundle": bundle}}

    return [
        {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": CONFIGURATION_NAME},
            "webhooks": [member(webhook) for webhook in WEBHOOKS if webhook.configuration == kind],
        }
        for kind in (MUTATING, VALIDATING)
    ]
