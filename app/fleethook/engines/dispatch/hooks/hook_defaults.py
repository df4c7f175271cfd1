"""Sets the defaults of webhook configurations (upstream: pkg/apis/admissionregistration/v1/defaults.go)."""

from typing import Final

from fleethook.model.json import JSON, JSONObject, as_object

MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"

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
    return {**configuration, "webhooks": [set_webhook_defaults(webhook, kind) for webhook in webhooks]}


def set_webhook_defaults(webhook: JSON, kind: str) -> JSON:
    """Return a copy of a webhook with every default; ``kind`` is the kind of its configuration."""
    if not isinstance(webhook, dict):
        return webhook
    defaults = _WEBHOOK | _REINVOCATION if kind == MUTATING else _WEBHOOK
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
