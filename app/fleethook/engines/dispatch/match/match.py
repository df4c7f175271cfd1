"""Matches a request against the filters of a webhook; each filter gives a verdict with its reason.

An apiserver checks the selectors first (k8s.io/apiserver pkg/admission/plugin/webhook/generic: `ShouldCallHook`). Here
the rules are checked first, because their result is cached. The outcome is the same: an error of a selector counts only
if a rule matches.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

from fleethook.engines.dispatch.dispatch_errors import StatusError, internal
from fleethook.engines.dispatch.hooks.hook_index import RelevantHook
from fleethook.engines.dispatch.hooks.hooks import GROUP, Hook
from fleethook.engines.dispatch.match.attributes import Attributes
from fleethook.engines.dispatch.match.rules import RuleAttributes
from fleethook.model.json import JSON, as_object

# k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.IsExemptAdmissionConfigurationResource
EXEMPT_KINDS = frozenset(
    {
        "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    }
)  # fmt: skip


class Stage(enum.StrEnum):
    """The filters of a webhook."""

    RULES = "rules"
    NAMESPACE_SELECTOR = "namespaceSelector"
    OBJECT_SELECTOR = "objectSelector"
    KIND = "kind"
    CONDITIONS = "matchConditions"
    OWN = "ownEndpoint"


class Verdict(NamedTuple):
    """The result of one filter; ``error`` is set if the filter has no result."""

    stage: Stage
    ok: bool
    reason: str
    error: StatusError | None = None


class NamespaceLabels(NamedTuple):
    """The labels of a request's namespace, or the error of reading them."""

    labels: Mapping[str, str]
    error: StatusError | None = None


def build_rule_attributes(attributes: Attributes) -> RuleAttributes:
    """Return the attributes of a request that rules match."""
    return RuleAttributes(attributes.operation, attributes.resource, attributes.subresource, bool(attributes.namespace))


def is_exempt(attributes: Attributes) -> bool:
    """Return whether webhooks skip a request: configurations of webhooks must stay repairable when webhooks fail."""
    return attributes.kind.group == GROUP and attributes.kind.kind in EXEMPT_KINDS


def needs_namespace(hook: Hook, attributes: Attributes) -> bool:
    """Return whether a webhook's namespaceSelector needs the labels of a request's namespace."""
    if hook.namespace_selector.selects_everything or hook.namespace_selector.problem:
        return False
    return (bool(attributes.namespace) or attributes.is_namespace) and not _is_own_namespace(attributes)


def _is_own_namespace(attributes: Attributes) -> bool:
    """Return whether the object is the Namespace whose labels are matched: the one that the request writes."""
    written = attributes.operation in ("CREATE", "UPDATE")
    return attributes.is_namespace and not attributes.subresource and written


def match_namespace(hook: Hook, attributes: Attributes, namespace: NamespaceLabels) -> Verdict:
    """Match a webhook's namespaceSelector (k8s.io/apiserver pkg/admission/plugin/webhook/predicates/namespace)."""
    stage, selector = Stage.NAMESPACE_SELECTOR, hook.namespace_selector
    if selector.problem:
        return Verdict(stage, ok=False, reason=selector.problem, error=internal(selector.problem))
    if not attributes.namespace and not attributes.is_namespace:
        return Verdict(stage, ok=True, reason="it does not filter cluster-scoped objects")
    if selector.selects_everything:
        return Verdict(stage, ok=True, reason="it selects everything")
    if _is_own_namespace(attributes):
        labels = read_labels(attributes.object)
        return _build_verdict(stage, selector.selects(labels), labels)
    if namespace.error is not None:
        return Verdict(stage, ok=False, reason=str(namespace.error), error=namespace.error)
    return _build_verdict(stage, selector.selects(namespace.labels), namespace.labels)


def _build_verdict(stage: Stage, ok: bool, labels: Mapping[str, str]) -> Verdict:  # noqa: FBT001 - private
    return Verdict(stage, ok, f"{'selects' if ok else 'does not select'} the labels {_format_labels(labels)}")


def _format_labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "none"


def match_object(hook: Hook, attributes: Attributes) -> Verdict:
    """Match a webhook's objectSelector: the new or the old object (upstream: predicates/object)."""
    stage, selector = Stage.OBJECT_SELECTOR, hook.object_selector
    if selector.problem:
        return Verdict(stage, ok=False, reason=selector.problem, error=internal(selector.problem))
    if selector.selects_everything:
        return Verdict(stage, ok=True, reason="it selects everything")
    documents = (attributes.object, attributes.old_object)
    found = [read_labels(one) for one in documents if isinstance(as_object(one).get("metadata"), dict)]
    for labels in found:
        if selector.selects(labels):
            return _build_verdict(stage, ok=True, labels=labels)
    if not found:
        return Verdict(stage, ok=False, reason="the object has no metadata, and no selector selects it")
    verdict = _build_verdict(stage, ok=False, labels=found[0])
    if found[-1] == found[0]:
        return verdict
    return verdict._replace(reason=f"{verdict.reason}, nor the old labels {_format_labels(found[-1])}")


def read_labels(document: JSON) -> Mapping[str, str]:
    """Return an object's labels; values that are not strings are ignored."""
    labels = as_object(as_object(as_object(document).get("metadata")).get("labels"))
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def match_kind(relevant: RelevantHook) -> Verdict:
    """Check that the kind of the object that a webhook gets is known."""
    invocation = relevant.invocation
    if invocation.kind is None:
        group, version, resource = invocation.resource
        text = f"unable to convert to {group or 'core'}/{version}, Resource={resource}: unknown kind"
        return Verdict(Stage.KIND, ok=False, reason=text, error=internal(text))
    return Verdict(Stage.KIND, ok=True, reason=f"it gets a {invocation.kind.kind} of {invocation.kind.api_version}")


def check_filters(relevant: RelevantHook, attributes: Attributes, namespace: NamespaceLabels) -> tuple[Verdict, ...]:
    """Return the verdicts of all filters except matchConditions, for a webhook whose rules match a request."""
    return (
        match_kind(relevant),
        match_namespace(relevant.hook, attributes, namespace),
        match_object(relevant.hook, attributes),
    )


def find_barrier(answers: tuple[Verdict, ...]) -> Verdict | None:
    """Return the verdict that prevents a call, None if there is none.

    A mismatch comes before every error: a filter that does not match skips the webhook, even if another one has an
    error.
    """
    mismatch = next((one for one in answers if not one.ok and one.error is None), None)
    return mismatch or next((one for one in answers if one.error is not None), None)
