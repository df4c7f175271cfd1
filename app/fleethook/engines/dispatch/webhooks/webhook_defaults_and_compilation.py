"""Compiles webhooks and sets their defaults.

A webhook may be a dispatch route of this server, which would ask the same webhooks again. Calls therefore carry a
header (`fleethook.outbound.calls_and_retries`), and dispatch routes refuse reviews with that header.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from fleethook.model.formats.client_config_and_addresses import WebhookEndpoint
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, Selects, compile_selector, validate_selector
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects, list_texts
from fleethook.model.rule_matching import RuleWithOperations, read_rules

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = GroupKind(GROUP, "MutatingWebhookConfiguration")
VALIDATING: Final = GroupKind(GROUP, "ValidatingWebhookConfiguration")

Phase = Literal["mutating", "validating"]
PHASES: Final[dict[Phase, GroupKind]] = {"mutating": MUTATING, "validating": VALIDATING}

DISPATCH_ONLY: Final = "fleethook.io/dispatch-only"
"""The name of a matchCondition ``false`` that hides a webhook from the apiserver; dispatch ignores it.

An apiserver that stores the configurations of many logical clusters would call each webhook for all of them.
"""
# The default and the maximum of timeoutSeconds (k8s.io/api/admissionregistration/v1).
_DEFAULT_SECONDS: Final = 10.0
_MAX_SECONDS: Final = 30.0
_HTTPS: Final = 443


class Selector(NamedTuple):
    """A label selector."""

    selects_everything: bool
    """Whether the selector is empty, so that no labels need to be looked up."""
    selects: Selects
    problem: str
    """Why a stored selector is invalid, ``""`` if it is valid."""
    reads_name_only: bool = False
    """Whether the name of a Namespace decides: kube-apiserver labels each one with its name."""


class MatchCondition(NamedTuple):
    """One entry of ``matchConditions``."""

    name: str
    expression: str


class Webhook(NamedTuple):
    """One webhook of a configuration."""

    phase: Phase
    cluster: str
    """The logical cluster of the configuration."""
    configuration: str
    name: str
    uid: str
    """``<configuration>/<name>/<index among the webhooks of that name>``."""
    position: int
    """The index among all webhooks of the cluster and the phase."""
    rules: tuple[RuleWithOperations, ...]
    matches_equivalents: bool
    """Whether matchPolicy is Equivalent: a rule also matches other versions of the same resource."""
    namespace_selector: Selector
    object_selector: Selector
    conditions: tuple[MatchCondition, ...]
    fails_open: bool
    side_effects: str | None
    review_versions: tuple[str, ...]
    seconds: float
    reinvoke_if_needed: bool
    endpoint: WebhookEndpoint | None
    problem: str
    """Why the webhook has no endpoint, ``""`` if it has one."""

    @property
    def weight(self) -> int:
        """The number of names in its rules; the time of a comparison with a request grows with it."""
        return sum(len(rule.resources) + len(rule.versions) + 1 for rule in self.rules)


def compile_webhooks(phase: Phase, cluster: str, configuration: JSONObject) -> Iterator[Webhook]:
    """Return the webhooks of a configuration in order. Members of a wrong type are ignored.

    Nothing is defaulted here: without a matchPolicy only the exact resource matches, and a missing selector selects
    nothing. `set_defaults` sets the defaults of the apiserver.

    Args:
        phase: The phase of the configuration's kind.
        cluster: The logical cluster of the configuration.
        configuration: The configuration.
    """
    name = as_text(as_object(configuration.get("metadata")).get("name"))
    seen: dict[str, int] = {}
    for position, webhook in enumerate(list_objects(configuration.get("webhooks"))):
        webhook_name = as_text(webhook.get("name"))
        same = seen.get(webhook_name, 0)
        seen[webhook_name] = same + 1
        endpoint, problem = find_endpoint(as_object(webhook.get("clientConfig")), cluster)
        yield Webhook(
            phase=phase,
            cluster=cluster,
            configuration=name,
            name=webhook_name,
            uid=f"{name}/{webhook_name}/{same}",
            position=position,
            rules=read_rules(webhook),
            matches_equivalents=webhook.get("matchPolicy") == "Equivalent",
            namespace_selector=_compile_selector(webhook.get("namespaceSelector")),
            object_selector=_compile_selector(webhook.get("objectSelector")),
            conditions=tuple(
                MatchCondition(as_text(condition.get("name")), as_text(condition.get("expression")))
                for condition in list_objects(webhook.get("matchConditions"))
                if not _is_dispatch_only(condition)
            ),
            fails_open=webhook.get("failurePolicy") == "Ignore",
            side_effects=as_text(webhook.get("sideEffects")) or None,
            review_versions=tuple(list_texts(webhook.get("admissionReviewVersions"))),
            seconds=_read_seconds(webhook.get("timeoutSeconds")),
            reinvoke_if_needed=webhook.get("reinvocationPolicy") == "IfNeeded",
            endpoint=endpoint,
            problem=problem,
        )


def _is_dispatch_only(condition: Mapping[str, JSON]) -> bool:
    return condition.get("name") == DISPATCH_ONLY and as_text(condition.get("expression")).strip() == "false"


def _compile_selector(selector: JSON) -> Selector:
    if not isinstance(selector, dict):
        return Selector(selects_everything=False, selects=compile_selector(None), problem="")
    try:
        problem = next((f"{path.replace('/', '.')}: {text}" for path, text in validate_selector(selector, "")), "")
        everything = not selector.get("matchLabels") and not selector.get("matchExpressions")
        keys = [
            *as_object(selector.get("matchLabels")),
            *(expression.get("key") for expression in selector.get("matchExpressions") or ()),
        ]
        return Selector(everything, compile_selector(selector), problem.lstrip("."), {*keys} == {NAMESPACE_LABEL})
    except (AttributeError, TypeError, ValueError):
        return Selector(selects_everything=False, selects=compile_selector(None), problem="not a label selector")


def _read_seconds(timeout: JSON) -> float:
    valid = isinstance(timeout, int) and not isinstance(timeout, bool) and timeout > 0
    return min(float(timeout), _MAX_SECONDS) if valid else _DEFAULT_SECONDS


def find_endpoint(config: Mapping[str, JSON], cluster: str) -> tuple[WebhookEndpoint | None, str]:
    """Return the endpoint of a ``clientConfig`` in a logical cluster, or why there is none."""
    ca_bundle = as_text(config.get("caBundle"))
    url, service = config.get("url"), config.get("service")
    if isinstance(url, str) and url:
        return WebhookEndpoint(url, "", ca_bundle), ""
    if not isinstance(service, dict):
        return None, "clientConfig has neither a url nor a service"
    if cluster:
        # A logical cluster has no network. kcp sets no service resolver either (pkg/admission/validatingwebhook).
        return None, f"clientConfig.service cannot be resolved for the logical cluster {cluster}: give a url"
    name, namespace = as_text(service.get("name")), as_text(service.get("namespace"))
    port, path = service.get("port"), as_text(service.get("path")).lstrip("/")
    host = f"{name}.{namespace}.svc"
    number = port if isinstance(port, int) else _HTTPS
    return WebhookEndpoint(f"https://{host}:{number}/{path}", host, ca_bundle, service=True), ""


_WEBHOOK: Final[JSONObject] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
_SELECTORS: Final = ("namespaceSelector", "objectSelector")
_REINVOCATION: Final[JSONObject] = {"reinvocationPolicy": "Never"}
_RULE: Final[JSONObject] = {"scope": "*"}
_SERVICE: Final[JSONObject] = {"port": 443}


def set_defaults(configuration: JSONObject) -> JSONObject:
    """Return a copy of a configuration with every default of ``admissionregistration.k8s.io/v1``.

    As in an apiserver, ``null`` is a missing member. Existing members of any type are kept.
    """
    webhooks = configuration.get("webhooks")
    if not isinstance(webhooks, list):
        return dict(configuration)
    kind = str(configuration.get("kind"))
    return {**configuration, "webhooks": [_set_webhook_defaults(webhook, kind) for webhook in webhooks]}


def _set_webhook_defaults(webhook: JSON, kind: str) -> JSON:
    """Return a copy of a webhook with every default; ``kind`` is the kind of its configuration."""
    if not isinstance(webhook, dict):
        return webhook
    defaults = _WEBHOOK | _REINVOCATION if kind == MUTATING.kind else _WEBHOOK
    # Each webhook gets its own selector objects, so that a change of one does not affect the others.
    filled = _fill(webhook, defaults | {selector: {} for selector in _SELECTORS})
    rules = webhook.get("rules")
    if isinstance(rules, list):
        filled["rules"] = [_fill(rule, _RULE) for rule in rules]
    service = as_object(webhook.get("clientConfig")).get("service")
    if isinstance(service, dict):
        filled["clientConfig"] = {**webhook["clientConfig"], "service": _fill(service, _SERVICE)}
    return filled


def _fill(document: JSON, defaults: JSONObject) -> JSON:
    if not isinstance(document, dict):
        return document
    return {**document, **{member: value for member, value in defaults.items() if document.get(member) is None}}
