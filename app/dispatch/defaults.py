"""What an apiserver fills in where a hook configuration is silent (research 2.16)."""

from typing import Final

from app.model.json import JSON, JSONObject, as_object

MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"

_WEBHOOK: Final[JSONObject] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
_SELECTORS: Final = ("namespaceSelector", "objectSelector")
_REINVOCATION: Final[JSONObject] = {"reinvocationPolicy": "Never"}
_RULE: Final[JSONObject] = {"scope": "*"}
_SERVICE: Final[JSONObject] = {"port": 443}


def set_defaults(configuration: JSONObject) -> JSONObject:
    """Return a copy of a configuration with every default of ``admissionregistration.k8s.io/v1`` in it.

    ``null`` is an absent member, as it is to an apiserver; what is there already stays, whatever its type. The
    argument is left alone (upstream: pkg/apis/admissionregistration/v1/defaults.go).
    """
    webhooks = configuration.get("webhooks")
    if not isinstance(webhooks, list):
        return dict(configuration)
    kind = str(configuration.get("kind"))
    return {**configuration, "webhooks": [set_webhook_defaults(webhook, kind) for webhook in webhooks]}


def set_webhook_defaults(webhook: JSON, kind: str) -> JSON:
    """Return a copy of one webhook with every default in it; ``kind`` is that of its configuration."""
    if not isinstance(webhook, dict):
        return webhook
    defaults = _WEBHOOK | _REINVOCATION if kind == MUTATING else _WEBHOOK
    # An object of its own per hook: one that all shared could be changed through any of them.
    filled = _filled(webhook, defaults | {selector: {} for selector in _SELECTORS})
    rules = webhook.get("rules")
    if isinstance(rules, list):
        filled["rules"] = [_filled(rule, _RULE) for rule in rules]
    service = as_object(webhook.get("clientConfig")).get("service")
    if isinstance(service, dict):
        filled["clientConfig"] = {**webhook["clientConfig"], "service": _filled(service, _SERVICE)}
    return filled


def _filled(document: JSON, defaults: JSONObject) -> JSON:
    if not isinstance(document, dict):
        return document
    return {**document, **{member: value for member, value in defaults.items() if document.get(member) is None}}
