"""Finds webhooks whose call or failure has unwanted effects."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Final, NamedTuple

from fleethook.admission.declaration import NO_CONTROL_PLANE, NO_MIRROR, NOT_DELETED
from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.dispatcher import NAMESPACE
from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.engines.dispatch.match.should_call import read_labels
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSON, as_object, as_text
from fleethook.model.webhook_rules import EVERY, Rule, RuleAttributes, matches_rule

# The resources that change when a webhook starts: its pods, their workload, and its Service.
_OWN_RESOURCES: Final = (("", "pods"), ("apps", "deployments"), ("", "services"))
# A leader must renew its Lease within 10 s (k8s.io/component-base config/v1alpha1), and its client waits half of that.
_LEASE_SECONDS: Final = 5.0
_SYSTEM_NAMESPACES: Final = ("kube-system", "kube-node-lease")
_WRITES: Final = frozenset({"CREATE", "UPDATE", EVERY})
# An apiserver sets this label on every namespace.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def call_findings(hook: Hook, webhook: Mapping[str, JSON], store: StoreView, *, now: datetime) -> Iterator[Issue]:
    """Yield the issues of calling a webhook; ``now`` decides about expired certificates."""
    service = as_object(webhook.get("clientConfig")).get("service")
    yield from _authority_findings(hook, now)
    yield from _control_plane_findings(hook, store)
    if hook.endpoint is None and isinstance(service, dict):
        yield Issue("service-in-logical-cluster", hook.problem)
    namespace = as_text(as_object(service).get("namespace"))
    if hook.endpoint is not None and hook.endpoint.service and _locks_out(hook, namespace, store):
        text = (
            f"it must admit its own pods in {namespace}, but cannot while it is down (failurePolicy Fail): "
            f"exclude the namespace with a namespaceSelector on {_NAME_LABEL}"
        )
        yield Issue("self-lockout", text)


def _authority_findings(hook: Hook, now: datetime) -> Iterator[Issue]:
    if hook.endpoint is None or not hook.endpoint.ca_bundle:
        return
    from fleethook.outbound.tls.trust import BundleError, read_bundle  # noqa: PLC0415 - cryptography takes long to import

    try:
        ends = read_bundle(hook.endpoint.ca_bundle)
    except BundleError:
        return
    if any(start <= now <= end for start, end in ends):
        return
    started = [end for start, end in ends if start <= now]
    since = f"has expired on {max(started):%Y-%m-%d}" if started else f"is valid from {min(ends)[0]:%Y-%m-%d} only"
    text = f"clientConfig.caBundle: every call fails, because each of its certificates {since}: renew it"
    yield Issue("expired-authority", text)


class _SystemResource(NamedTuple):
    """A resource without whose requests a control plane stops.

    Attributes:
        group: API group.
        plural: The resource.
        effect: The consequence of refused requests.
        operations: The operations that matter.
        subresources: The subresources that matter, ``""`` for the resource itself.
        namespaced: Whether its objects have a namespace.
        namespaces: The namespaces whose objects matter, none for all.
    """

    group: str
    plural: str
    effect: str
    operations: tuple[str, ...] = ("CREATE",)
    subresources: tuple[str, ...] = ("",)
    namespaced: bool = False
    namespaces: tuple[str, ...] = ()


_AUTHORIZATION: Final = "authorization.k8s.io"
_UNAUTHORIZED: Final = "kubelets and aggregated apiservers cannot authorize callers"
_RIGHTS: Final = "clients cannot ask for their own rights"
_LEASES: Final = _SystemResource(
    "coordination.k8s.io",
    "leases",
    "components lose their leader election, and nodes become NotReady",
    ("CREATE", "UPDATE"),
    namespaced=True,
    namespaces=_SYSTEM_NAMESPACES,
)
_SYSTEM: Final = (
    _SystemResource("", "nodes", "nodes cannot join or report their state", ("CREATE", "UPDATE"), ("", "status")),
    _SystemResource(
        "authentication.k8s.io",
        "tokenreviews",
        "kubelets, webhooks and aggregated apiservers cannot authenticate callers",
    ),
    _SystemResource(_AUTHORIZATION, "subjectaccessreviews", _UNAUTHORIZED),
    _SystemResource(_AUTHORIZATION, "localsubjectaccessreviews", _UNAUTHORIZED, namespaced=True),
    _SystemResource(_AUTHORIZATION, "selfsubjectaccessreviews", _RIGHTS),
    _SystemResource(_AUTHORIZATION, "selfsubjectrulesreviews", _RIGHTS),
    _SystemResource(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "kubelets get no new certificates",
        ("CREATE", "UPDATE"),
        ("", "approval", "status"),
    ),
    _LEASES,
)


# The conditions of admission rules in Python. The last one excludes all other groups of `_SYSTEM`.
_DEFAULT_CONDITIONS: Final = (NOT_DELETED, NO_MIRROR, NO_CONTROL_PLANE)
_SEEN_GROUPS: Final = ("", "certificates.k8s.io")


def _control_plane_findings(hook: Hook, store: StoreView) -> Iterator[Issue]:
    """Find webhooks that stop a control plane; an objectSelector or condition counts as an exclusion."""
    if hook.cluster or _has_filters(hook):
        return  # A logical cluster has no nodes.
    selected = {one for one in _SYSTEM_NAMESPACES if _selects(hook, one, store)}
    names_all = all(one.expression != NO_CONTROL_PLANE for one in hook.conditions)
    known = [
        one
        for one in _SYSTEM
        if (not one.namespaces or not selected.isdisjoint(one.namespaces)) and (names_all or one.group in _SEEN_GROUPS)
    ]
    matched = [one for one in known if any(_matches_system(rule, one) for rule in hook.rules)]
    if matched and not hook.fails_open:
        yield Issue("stops-control-plane", _describe_stop(matched))
    elif _LEASES in matched and hook.seconds >= _LEASE_SECONDS and not _matches_everything(hook):
        yield Issue(
            "stops-control-plane",
            f"its rules match leases, and timeoutSeconds is {hook.seconds:g}: while the webhook is slow, "
            f"{_LEASES.effect}: exclude Leases, or the namespaces {' and '.join(_SYSTEM_NAMESPACES)}, or lower "
            f"timeoutSeconds below {_LEASE_SECONDS:g}",
        )


def _matches_everything(hook: Hook) -> bool:
    """Return whether a rule is for all resources: it delays all other requests as much as Leases."""
    return any(resource == EVERY for rule in hook.rules for resource, _ in rule.resources)


def _matches_system(rule: Rule, one: _SystemResource) -> bool:
    """Return whether a rule matches a request that a control plane needs, in any version."""
    of_any_version = rule._replace(versions=frozenset({EVERY}))
    resource = GroupVersionResource(one.group, "", one.plural)
    return any(
        matches_rule(of_any_version, RuleAttributes(operation, resource, subresource, namespaced=one.namespaced))
        for operation, subresource in product(one.operations, one.subresources)
    )


def _describe_stop(matched: Sequence[_SystemResource]) -> str:
    effects = "; ".join(dict.fromkeys(one.effect for one in matched))
    are_namespaced = all(one.namespaced for one in matched)
    hint = "" if are_namespaced else "; a namespaceSelector does not exclude cluster-scoped objects"
    names = ", ".join(one.plural for one in matched)
    return (
        f"its rules match {names}, and failurePolicy is Fail: while the webhook does not answer, {effects}: name only "
        f"the resources that it needs, exclude these by matchConditions, or set failurePolicy to Ignore{hint}"
    )


def _locks_out(hook: Hook, namespace: str, store: StoreView) -> bool:
    """Return whether a webhook must admit the objects that it needs to start.

    Objects are unknown here, so an objectSelector or a condition counts as an exclusion.
    """
    return not hook.fails_open and _selects(hook, namespace, store) and any(map(_matches_own_resources, hook.rules))


def _selects(hook: Hook, namespace: str, store: StoreView) -> bool:
    """Return whether a webhook gets all objects of a namespace that are not being deleted."""
    if _has_filters(hook):
        return False
    found = store.get(hook.cluster, NAMESPACE, "", namespace)
    return hook.namespace_selector.selects({**read_labels(found), _NAME_LABEL: namespace})


def _has_filters(hook: Hook) -> bool:
    is_conditional = any(one.expression not in _DEFAULT_CONDITIONS for one in hook.conditions)
    return is_conditional or not hook.object_selector.selects_everything


def _matches_own_resources(rule: Rule) -> bool:
    if rule.scope == "Cluster" or not rule.operations & _WRITES:
        return False
    plurals = {resource for resource, subresource in rule.resources if subresource in ("", EVERY)}
    return any(rule.groups & {group, EVERY} and plurals & {resource, EVERY} for group, resource in _OWN_RESOURCES)
