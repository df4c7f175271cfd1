"""Finds webhooks whose call or failure has unwanted effects."""

from collections.abc import Iterator, Mapping
from typing import Final

from app.dispatch.dispatcher import NAMESPACE
from app.dispatch.hooks import EVERY, Hook, Rule
from app.dispatch.lint.codes import Issue
from app.dispatch.lint.served_resources import read_text
from app.dispatch.match import read_labels
from app.model.json import JSON, as_object
from app.store import StoreView

# The default of timeoutSeconds. With failurePolicy Ignore, a longer one delays every request while the webhook is down
# (kubernetes/kubernetes#128162).
_DEFAULT_SECONDS: Final = 10.0
# The resources that change when a webhook starts: its pods, their workload, and its Service.
_OWN_RESOURCES: Final = (("", "pods"), ("apps", "deployments"), ("", "services"))
_WRITES: Final = frozenset({"CREATE", "UPDATE", EVERY})
# An apiserver sets this label on every namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def call_findings(hook: Hook, webhook: Mapping[str, JSON], store: StoreView) -> Iterator[Issue]:
    """Yield the issues of calling a webhook."""
    service = as_object(webhook.get("clientConfig")).get("service")
    if hook.endpoint is None and isinstance(service, dict):
        yield Issue("service-in-logical-cluster", hook.problem)
    if hook.fails_open and hook.seconds > _DEFAULT_SECONDS:
        text = (
            f"while it is down, each request waits {hook.seconds:g} s and is then admitted without it: "
            f"lower timeoutSeconds to {_DEFAULT_SECONDS:g} or less"
        )
        yield Issue("slow-ignored", text)
    if hook.fails_open and hook.side_effects not in (None, "None"):
        text = (
            f"sideEffects is {hook.side_effects} and failurePolicy is Ignore: after a timeout the request is admitted, "
            "and its side effects remain: set failurePolicy to Fail"
        )
        yield Issue("ignored-side-effects", text)
    namespace = read_text(as_object(service).get("namespace"))
    if hook.endpoint is not None and hook.endpoint.service and _locks_out(hook, namespace, store):
        text = (
            f"it must admit its own pods in {namespace}, but cannot while it is down (failurePolicy Fail): "
            f"exclude the namespace with a namespaceSelector on {_NAME_LABEL}"
        )
        yield Issue("self-lockout", text)


def _locks_out(hook: Hook, namespace: str, store: StoreView) -> bool:
    """Return whether a webhook must admit the objects that it needs to start.

    Objects are unknown here, so an objectSelector or a condition counts as an exclusion.
    """
    if hook.fails_open or hook.conditions or not hook.object_selector.selects_everything:
        return False
    found = store.get(hook.cluster, NAMESPACE, "", namespace)
    labels = {**read_labels(found), _NAME_LABEL: namespace}
    return hook.namespace_selector.selects(labels) and any(map(_matches_own_resources, hook.rules))


def _matches_own_resources(rule: Rule) -> bool:
    if rule.scope == "Cluster" or not rule.operations & _WRITES:
        return False
    plurals = {resource for resource, subresource in rule.resources if subresource in ("", EVERY)}
    return any(rule.groups & {group, EVERY} and plurals & {resource, EVERY} for group, resource in _OWN_RESOURCES)
