"""Finds webhooks whose call or failure has unwanted effects."""

from collections.abc import Iterator, Mapping
from datetime import datetime
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
_LEASES: Final = "coordination.k8s.io"
# A leader must renew its Lease within 10 s (k8s.io/component-base config/v1alpha1), and its client waits half of that.
_LEASE_SECONDS: Final = 5.0
_WRITES: Final = frozenset({"CREATE", "UPDATE", EVERY})
# An apiserver sets this label on every namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def call_findings(hook: Hook, webhook: Mapping[str, JSON], store: StoreView, *, now: datetime) -> Iterator[Issue]:
    """Yield the issues of calling a webhook; ``now`` decides about expired certificates."""
    service = as_object(webhook.get("clientConfig")).get("service")
    yield from _authority_findings(hook, now)
    yield from _lease_findings(hook)
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


def _authority_findings(hook: Hook, now: datetime) -> Iterator[Issue]:
    if hook.endpoint is None or not hook.endpoint.ca_bundle:
        return
    from app.outbound.trust import TrustError, load_roots  # noqa: PLC0415 - cryptography takes long to import

    try:
        ends = load_roots(hook.endpoint.ca_bundle).list_periods()
    except TrustError:
        return
    if any(start <= now <= end for start, end in ends):
        return
    started = [end for start, end in ends if start <= now]
    since = f"has expired on {max(started):%Y-%m-%d}" if started else f"is valid from {min(ends)[0]:%Y-%m-%d} only"
    text = f"clientConfig.caBundle: every call fails, because each of its certificates {since}: renew it"
    yield Issue("expired-authority", text)


def _lease_findings(hook: Hook) -> Iterator[Issue]:
    """Find webhooks that delay Leases; an objectSelector, namespaceSelector or condition counts as an exclusion."""
    selects_all = hook.namespace_selector.selects_everything and hook.object_selector.selects_everything
    if hook.seconds < _LEASE_SECONDS or hook.conditions or not selects_all:
        return
    for number, rule in enumerate(hook.rules):
        plurals = {resource for resource, subresource in rule.resources if subresource in ("", EVERY)}
        # A rule for everything is left alone: it is as slow for all that a cluster needs.
        names_leases = "leases" in plurals or (_LEASES in rule.groups and EVERY in plurals)
        is_of_leases = names_leases and rule.groups & {_LEASES, EVERY} and rule.scope != "Cluster"
        if is_of_leases and rule.operations & {"UPDATE", EVERY}:
            yield Issue(
                "slow-leases",
                f"rules[{number}] matches Leases, and timeoutSeconds is {hook.seconds:g}: while the webhook is slow, "
                "components lose their leader election, and nodes become NotReady: exclude Leases, or the namespaces "
                f"kube-system and kube-node-lease, or lower timeoutSeconds below {_LEASE_SECONDS:g}",
            )
            return


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
