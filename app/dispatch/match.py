"""Whether a webhook is asked about a request: each question in turn, and the answer with its reason (research 2.3).

An apiserver asks the selectors first. Here the rules come first, which are free once they are remembered; the result
is the same, because an error of a selector counts only where a rule matched.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

from app.dispatch.attributes import Attributes
from app.dispatch.errors import StatusError, internal
from app.dispatch.hook_index import RelevantHook
from app.dispatch.hooks import GROUP, Hook
from app.dispatch.rules import RuleAttributes
from app.model.json import JSON, as_object

# k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.IsExemptAdmissionConfigurationResource
EXEMPT_KINDS = frozenset(
    {
        "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    }
)  # fmt: skip


class Stage(enum.StrEnum):
    """What is asked."""

    RULES = "rules"
    NAMESPACE_SELECTOR = "namespaceSelector"
    OBJECT_SELECTOR = "objectSelector"
    KIND = "kind"
    CONDITIONS = "matchConditions"
    OWN = "ownEndpoint"


class Verdict(NamedTuple):
    """The answer to one question; ``error`` is set where it could not be answered."""

    stage: Stage
    ok: bool
    reason: str
    error: StatusError | None = None


class NamespaceLabels(NamedTuple):
    """The labels of the namespace that a request is in, or why they are not known."""

    labels: Mapping[str, str]
    error: StatusError | None = None


def build_rule_attributes(attributes: Attributes) -> RuleAttributes:
    """Return what of a request rules are about."""
    return RuleAttributes(attributes.operation, attributes.resource, attributes.subresource, bool(attributes.namespace))


def is_exempt(attributes: Attributes) -> bool:
    """Return whether no webhook is asked: what decides about webhooks must stay mendable when they fail."""
    return attributes.kind.group == GROUP and attributes.kind.kind in EXEMPT_KINDS


def needs_namespace(hook: Hook, attributes: Attributes) -> bool:
    """Return whether a webhook's namespaceSelector has to know the labels of the namespace that a request is in."""
    return not hook.namespace_selector.everything and not hook.namespace_selector.problem and _looks_up(attributes)


def _looks_up(attributes: Attributes) -> bool:
    if not attributes.namespace and not attributes.is_namespace:
        return False
    return not _is_own_namespace(attributes)


def _is_own_namespace(attributes: Attributes) -> bool:
    """Whether the object is the very Namespace whose labels count: the one that is being written."""
    written = attributes.operation in ("CREATE", "UPDATE")
    return attributes.is_namespace and not attributes.subresource and written


def match_namespace(hook: Hook, attributes: Attributes, namespace: NamespaceLabels) -> Verdict:
    """Return whether a webhook's namespaceSelector selects a request (research 2.6)."""
    stage, selector = Stage.NAMESPACE_SELECTOR, hook.namespace_selector
    if selector.problem:
        return Verdict(stage, ok=False, reason=selector.problem, error=internal(selector.problem))
    if not attributes.namespace and not attributes.is_namespace:
        return Verdict(stage, ok=True, reason="cluster-scoped objects are never exempt by it")
    if selector.everything:
        return Verdict(stage, ok=True, reason="it selects everything")
    if _is_own_namespace(attributes):
        return _selected(stage, selector.selects(read_labels(attributes.object)), read_labels(attributes.object))
    if namespace.error is not None:
        return Verdict(stage, ok=False, reason=str(namespace.error), error=namespace.error)
    return _selected(stage, selector.selects(namespace.labels), namespace.labels)


def _selected(stage: Stage, ok: bool, labels: Mapping[str, str]) -> Verdict:  # noqa: FBT001 - private
    shown = ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "none"
    return Verdict(stage, ok, f"{'selects' if ok else 'does not select'} the labels {shown}")


def match_object(hook: Hook, attributes: Attributes) -> Verdict:
    """Return whether a webhook's objectSelector selects the object, as it is to be or as it was (research 2.6)."""
    stage, selector = Stage.OBJECT_SELECTOR, hook.object_selector
    if selector.problem:
        return Verdict(stage, ok=False, reason=selector.problem, error=internal(selector.problem))
    if selector.everything:
        return Verdict(stage, ok=True, reason="it selects everything")
    for document in (attributes.object, attributes.old_object):
        if isinstance(as_object(document).get("metadata"), dict) and selector.selects(read_labels(document)):
            return _selected(stage, ok=True, labels=read_labels(document))
    return _selected(stage, ok=False, labels=read_labels(attributes.object or attributes.old_object))


def read_labels(document: JSON) -> Mapping[str, str]:
    """Return an object's labels; those that are no text are none."""
    labels = as_object(as_object(as_object(document).get("metadata")).get("labels"))
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def match_kind(relevant: RelevantHook) -> Verdict:
    """Return whether it is known what kind of object a webhook is to be sent."""
    invocation = relevant.invocation
    if invocation.kind is None:
        group, version, resource = invocation.resource
        text = f"unable to convert to {group or 'core'}/{version}, Resource={resource}: unknown kind"
        return Verdict(Stage.KIND, ok=False, reason=text, error=internal(text))
    return Verdict(Stage.KIND, ok=True, reason=f"it is sent a {invocation.kind.kind} of {invocation.kind.api_version}")


def check_filters(relevant: RelevantHook, attributes: Attributes, namespace: NamespaceLabels) -> tuple[Verdict, ...]:
    """Return the answers to all questions but conditions, for a webhook whose rules are about a request."""
    return (
        match_kind(relevant),
        match_namespace(relevant.hook, attributes, namespace),
        match_object(relevant.hook, attributes),
    )


def find_barrier(answers: tuple[Verdict, ...]) -> Verdict | None:
    """Return the answer that keeps a webhook from being asked, None if none does.

    A plain no comes before every error: what is not selected is skipped, even if another question has no answer.
    """
    no = next((one for one in answers if not one.ok and one.error is None), None)
    return no or next((one for one in answers if one.error is not None), None)
