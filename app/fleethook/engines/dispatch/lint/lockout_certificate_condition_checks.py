"""Finds webhooks whose call or failure has unwanted effects, and expressions that have an error for their requests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Final, NamedTuple

from fleethook.cel.check.null_reads import NULLS, read_null
from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.program import Activation, EvaluationError, compile_condition
from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.lint.configuration_validation import Issue
from fleethook.engines.dispatch.match.match_conditions import evaluate_conditions
from fleethook.engines.dispatch.match.selectors_and_decision import NAMESPACE
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, read_labels
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.model.rule_matching import EVERY, RuleAttributes, matches_rule

# A leader must renew its Lease within 10 s (k8s.io/component-base config/v1alpha1), and its client waits half of that.
_LEASE_SECONDS: Final = 5.0
_SYSTEM_NAMESPACES: Final = ("kube-system", "kube-node-lease")


def call_findings(
    webhook: Webhook, document: Mapping[str, JSON], store: StoreView, *, now: datetime
) -> Iterator[Issue]:
    """Yield the issues of calling a webhook; ``now`` decides about expired certificates."""
    service = as_object(document.get("clientConfig")).get("service")
    yield from _authority_findings(webhook, now)
    yield from _control_plane_findings(webhook, store)
    if webhook.endpoint is None and isinstance(service, dict):
        yield Issue("service-in-logical-cluster", webhook.problem)
    namespace = as_text(as_object(service).get("namespace"))
    if webhook.endpoint is not None and webhook.endpoint.service and _locks_out(webhook, namespace, store):
        text = (
            f"it must admit its own pods in {namespace}, but cannot while it is down (failurePolicy Fail): "
            f"exclude the namespace with a namespaceSelector on {NAMESPACE_LABEL}"
        )
        yield Issue("self-lockout", text)


def _authority_findings(webhook: Webhook, now: datetime) -> Iterator[Issue]:
    if webhook.endpoint is None or not webhook.endpoint.ca_bundle:
        return
    from fleethook.outbound.certificate_trust import BundleError, read_bundle  # noqa: PLC0415 - cryptography takes long to import

    try:
        ends = read_bundle(webhook.endpoint.ca_bundle)
    except BundleError:
        return
    if any(start <= now <= end for start, end in ends):
        return
    started = [end for start, end in ends if start <= now]
    since = f"has expired on {max(started):%Y-%m-%d}" if started else f"is valid from {min(ends)[0]:%Y-%m-%d} only"
    text = f"clientConfig.caBundle: every call fails, because each of its certificates {since}: renew it"
    yield Issue("expired-authority", text)


class _Resource(NamedTuple):
    """A resource without whose requests a control plane, or the webhook itself, stops.

    Attributes:
        group: API group.
        plural: The resource.
        kind: Its kind.
        effect: The consequence of refused requests.
        operations: The operations that matter.
        subresources: The subresources that matter, ``""`` for the resource itself.
        namespaced: Whether its objects have a namespace.
        namespaces: The namespaces whose objects matter, none for all.
    """

    group: str
    plural: str
    kind: str
    effect: str = ""
    operations: tuple[str, ...] = ("CREATE",)
    subresources: tuple[str, ...] = ("",)
    namespaced: bool = False
    namespaces: tuple[str, ...] = ()


_AUTHORIZATION: Final = "authorization.k8s.io"
_UNAUTHORIZED: Final = "kubelets and aggregated apiservers cannot authorize callers"
_RIGHTS: Final = "clients cannot ask for their own rights"
_LEASES: Final = _Resource(
    "coordination.k8s.io",
    "leases",
    "Lease",
    "components lose their leader election, and nodes become NotReady",
    ("CREATE", "UPDATE"),
    namespaced=True,
    namespaces=_SYSTEM_NAMESPACES,
)
_WRITES: Final = ("CREATE", "UPDATE")
_SYSTEM: Final = (
    _Resource("", "nodes", "Node", "nodes cannot join or report their state", _WRITES, ("", "status")),
    _Resource(
        "authentication.k8s.io",
        "tokenreviews",
        "TokenReview",
        "kubelets, webhooks and aggregated apiservers cannot authenticate callers",
    ),
    _Resource(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", _UNAUTHORIZED),
    _Resource(_AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", _UNAUTHORIZED, namespaced=True),
    _Resource(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", _RIGHTS),
    _Resource(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", _RIGHTS),
    _Resource(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        "kubelets get no new certificates",
        _WRITES,
        ("", "approval", "status"),
    ),
    _LEASES,
)
# The requests that start a webhook: its pods with their node and token, their workload, and its Service.
_OWN: Final = (
    _Resource("", "pods", "Pod", operations=_WRITES, namespaced=True),
    _Resource("", "pods", "Binding", subresources=("binding",), namespaced=True),
    _Resource("", "serviceaccounts", "TokenRequest", subresources=("token",), namespaced=True),
    _Resource("apps", "deployments", "Deployment", operations=_WRITES, namespaced=True),
    _Resource("", "services", "Service", operations=_WRITES, namespaced=True),
)
# For conditions. They may exclude the kubelets, and then those of the other callers are the webhook's own decision.
_KUBELET: Final = {"username": "system:node:node-1", "groups": ["system:nodes", "system:authenticated"]}
_CONTROLLER: Final = {
    "username": "system:serviceaccount:kube-system:replicaset-controller",
    "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
}


def _control_plane_findings(webhook: Webhook, store: StoreView) -> Iterator[Issue]:
    """Find webhooks that stop a control plane."""
    if webhook.cluster:
        return  # A logical cluster has no nodes.
    selected = [one for one in _SYSTEM_NAMESPACES if _selects(webhook, one, store)]
    matched = [
        resource
        for resource in _SYSTEM
        if (not resource.namespaces or selected) and _gets(webhook, resource, (*selected, "default")[0], _KUBELET)
    ]
    if matched and not webhook.fails_open:
        yield Issue("stops-control-plane", _describe_stop(matched))
    elif _LEASES in matched and webhook.seconds >= _LEASE_SECONDS and not _matches_everything(webhook):
        yield Issue(
            "stops-control-plane",
            f"its rules match leases, and timeoutSeconds is {webhook.seconds:g}: while the webhook is slow, "
            f"{_LEASES.effect}: exclude Leases, or the namespaces {' and '.join(_SYSTEM_NAMESPACES)}, or lower "
            f"timeoutSeconds below {_LEASE_SECONDS:g}",
        )


def _matches_everything(webhook: Webhook) -> bool:
    """Return whether a rule is for all resources: it delays all other requests as much as Leases."""
    return any(resource == EVERY for rule in webhook.rules for resource, _ in rule.resources)


def _gets(webhook: Webhook, one: _Resource, namespace: str, user: JSONObject) -> bool:
    """Return whether a webhook gets a request for a resource.

    Most members of its object are unknown, so an objectSelector, or a condition that reads them, excludes it.
    """
    if not webhook.object_selector.selects_everything:
        return False
    resource = GroupVersionResource(one.group, EVERY, one.plural)
    return any(
        any(
            matches_rule(
                rule._replace(versions=frozenset({EVERY})),
                RuleAttributes(operation, resource, subresource, namespaced=one.namespaced),
            )
            for rule in webhook.rules
        )
        and _hold_conditions(webhook, one, operation, subresource, namespace if one.namespaced else "", user)
        for operation, subresource in product(one.operations, one.subresources)
    )


def _hold_conditions(
    webhook: Webhook, one: _Resource, operation: str, subresource: str, namespace: str, user: JSONObject
) -> bool:
    document: JSONObject = {"kind": one.kind, "metadata": {"name": "a", "namespace": namespace}}
    request: JSONObject = {
        "kind": {"group": one.group, "version": "v1", "kind": one.kind},
        "resource": {"group": one.group, "version": "v1", "resource": one.plural},
        "subResource": subresource,
        "name": "a",
        "namespace": namespace,
        "operation": operation,
        "userInfo": user,
        "dryRun": False,
        "options": {},
    }
    scope = Activation(object_=document, old_object=document if operation == "UPDATE" else None, request=request)
    return evaluate_conditions(webhook.conditions, scope, fail_open=False).matched


def _describe_stop(matched: Sequence[_Resource]) -> str:
    effects = "; ".join(dict.fromkeys(resource.effect for resource in matched))
    are_namespaced = all(resource.namespaced for resource in matched)
    hint = "" if are_namespaced else "; a namespaceSelector does not exclude cluster-scoped objects"
    names = ", ".join(resource.plural for resource in matched)
    return (
        f"its rules match {names}, and failurePolicy is Fail: while the webhook does not answer, {effects}: name only "
        f"the resources that it needs, exclude these by matchConditions, or set failurePolicy to Ignore{hint}"
    )


def _locks_out(webhook: Webhook, namespace: str, store: StoreView) -> bool:
    """Return whether a webhook must admit the requests that it needs to start."""
    is_selected = not webhook.fails_open and _selects(webhook, namespace, store)
    return is_selected and any(_gets(webhook, resource, namespace, _CONTROLLER) for resource in _OWN)


def _selects(webhook: Webhook, namespace: str, store: StoreView) -> bool:
    """Return whether the namespaceSelector of a webhook selects a namespace."""
    found = store.get(webhook.cluster, NAMESPACE, "", namespace)
    return webhook.namespace_selector.selects({**read_labels(found), NAMESPACE_LABEL: namespace})


_OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")
# A condition without these words is constant, and evaluated quickly.
_VARIES: Final = re.compile(
    r"\b(object|oldObject|request|namespaceObject|authorizer|all|exists|map|filter|\w*[A-Z_]\w*)\b"
)
_AUTHORIZER: Final = re.compile(r"(?<![\w.'\"])authorizer\s*\.")
_MAX_EXPRESSION: Final = 20_000
# kube-apiserver gives matchConditions of webhooks no namespaceObject (k8s.io/apiserver v0.36
# pkg/admission/plugin/webhook/matchconditions/matcher.go passes nil).
_CONDITION_NULL: Final = "namespaceObject"


def condition_errors(webhook: Webhook, rule_expression: str = "") -> Iterator[Issue]:
    """Yield the expressions of a webhook that have an error.

    Args:
        webhook: The webhook.
        rule_expression: The expression of an admission rule in Python, ``""`` for another webhook.
    """
    conditions = {f"matchConditions {condition.name}": condition.expression for condition in webhook.conditions}
    expressions = {**conditions, **({"expression": rule_expression} if rule_expression else {})}
    effect = "are refused (failurePolicy Fail)"
    if webhook.fails_open:
        verb = "are admitted without the rule" if rule_expression else "are not sent to the webhook"
        effect = f"{verb} (failurePolicy Ignore)"
    for (name, outcome), operations in _find_null_reads(webhook, conditions, rule_expression).items():
        yield _describe(
            name, expressions[name], operations, f"{'' if outcome == 'always' else 'some of '}these requests {effect}"
        )
    for name, operation in _find_unnamed(webhook, expressions):
        yield _describe_unnamed(name, operation, effect)
    for name, expression in expressions.items():
        if webhook.cluster and _AUTHORIZER.search(expression):
            yield Issue(
                "condition-error", f"{name}: no request has an authorizer, so these requests {effect}: remove it"
            )
        value = _evaluate_constant(expression)
        if isinstance(value, EvaluationError):
            yield Issue("condition-error", f"{name}: its constants have an error, so all requests {effect}: correct it")
        elif value is False and name in conditions:
            yield Issue("never-called", f"{name}: it is always false: remove the webhook, or the condition")


def _find_null_reads(
    webhook: Webhook, conditions: Mapping[str, str], rule_expression: str
) -> dict[tuple[str, str], list[str]]:
    """Return the operations for which an expression reads a member of a null, by its name and the outcome."""
    found: dict[tuple[str, str], list[str]] = {}
    listed = frozenset[str]().union(*(rule.operations for rule in webhook.rules))
    for operation in _OPERATIONS if EVERY in listed else sorted(listed & frozenset(_OPERATIONS)):
        if operation == "CONNECT" and EVERY in listed:
            continue  # Few resources support it.
        reads = {name: read_null(text, operation, nulls=(_CONDITION_NULL,)) for name, text in conditions.items()}
        # A false condition skips the webhook, even if other conditions have errors.
        if "false" in reads.values():
            continue
        if rule_expression:
            reads["expression"] = read_null(rule_expression, operation)
        for name, outcome in reads.items():
            if outcome in ("always", "possible"):
                found.setdefault((name, outcome), []).append(operation)
    return found


def _find_unnamed(webhook: Webhook, expressions: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield expressions that need the name of a request, with an operation whose request may lack it."""
    listed = frozenset[str]().union(*(rule.operations for rule in webhook.rules))
    for operation in ("CREATE", "DELETE") if webhook.phase == "mutating" else ("DELETE",):
        if not listed & {EVERY, operation}:
            continue
        nulls = (_CONDITION_NULL,)
        unnamed = {one: read_null(text, operation, nulls=nulls, has_name=False) for one, text in expressions.items()}
        if "false" in unnamed.values():
            continue
        for name, text in expressions.items():
            if unnamed[name] and not read_null(text, operation, nulls=nulls):
                yield name, operation


def _describe_unnamed(name: str, operation: str, effect: str) -> Issue:
    lacking = "a deleted collection, so also of a deleted namespace,"
    if operation == "CREATE":
        lacking = "an object with generateName, as Pods have,"
    text = f"{name}: it reads request.name, which the request of {lacking} lacks, so these requests {effect}"
    return Issue("suspicious", f"{text}: test has(request.name) first")


def _describe(name: str, expression: str, operations: Sequence[str], effect: str) -> Issue:
    nulls = {one for operation in operations for one in NULLS[operation]} | {_CONDITION_NULL}
    used = sorted(null for null in nulls if re.search(rf"\b{null}\b", expression))
    why = f"it reads {' and '.join(used)}, which is null for {' and '.join(operations)}"
    code = "suspicious" if effect.startswith("some") else "condition-error"
    remedy = "compare with null first, or remove the operation"
    return Issue(code, f"{name}: {why}, so {effect}: {remedy}")


def _evaluate_constant(expression: str) -> object:
    """Return the value of an expression without variables, or its EvaluationError; None for any other expression."""
    if len(expression) > _MAX_EXPRESSION or _VARIES.search(expression):
        return None
    try:
        return compile_condition(expression).evaluate(Activation(object_=None, old_object=None, request={}))
    except EvaluationError as error:
        return error
    except (ExpressionError, RecursionError):
        return None
