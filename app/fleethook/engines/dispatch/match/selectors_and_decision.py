"""Decides whether to call a webhook: matches filters, converts the object and evaluates matchConditions.

Upstream: `ShouldCallHook` in k8s.io/apiserver pkg/admission/plugin/webhook/generic.
"""

import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from fleethook.cel.program import Activation
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.review_response_and_patch import Patcher, WebhookResponse
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError, forbidden, internal
from fleethook.engines.dispatch.match.match_conditions import Budget, ConditionEvaluator, build_condition_request
from fleethook.engines.dispatch.webhooks.cluster_webhooks import RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import GROUP, Webhook
from fleethook.model.admission import StatusDetails
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, read_labels
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSON, as_object
from fleethook.model.rule_matching import RuleAttributes
from fleethook.tracing.spans_and_otel_variables import child_span

# k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.IsExemptAdmissionConfigurationResource
EXEMPT_KINDS = frozenset(
    {
        "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    }
)  # fmt: skip


NAMESPACE: Final = GroupKind("", "Namespace")


class Stage(enum.StrEnum):
    """The filters of a webhook."""

    RULES = "rules"
    NAMESPACE_SELECTOR = "namespaceSelector"
    OBJECT_SELECTOR = "objectSelector"
    KIND = "kind"
    CONDITIONS = "matchConditions"


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


def needs_namespace(webhook: Webhook, attributes: Attributes) -> bool:
    """Return whether a webhook's namespaceSelector needs the labels of a request's namespace."""
    if webhook.namespace_selector.selects_everything or webhook.namespace_selector.problem:
        return False
    return (bool(attributes.namespace) or attributes.is_namespace) and not _is_own_namespace(attributes)


def _is_own_namespace(attributes: Attributes) -> bool:
    """Return whether the object is the Namespace whose labels are matched: the one that the request writes."""
    written = attributes.operation in ("CREATE", "UPDATE")
    return attributes.is_namespace and not attributes.subresource and written


ReadNamespace = Callable[[str, str], Awaitable[None]]
"""Reads a namespace of a logical cluster into the store; raises StatusError."""


class NamespaceSource(Protocol):
    """The source of the store's objects."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Read one object from the server into the store; raises APIError, UnreachableError."""

    def scope(self, cluster: str) -> str:
        """Return the path prefix of a cluster."""


async def read_namespace(cluster: str, name: str, *, live: NamespaceSource) -> None:
    """Read a namespace into the store: it may be new. Raises StatusError."""
    try:
        await live.read_one(NAMESPACE, cluster=cluster, namespace="", name=name)
    except (APIError, UnreachableError) as error:
        where = f" of logical cluster {cluster}" if cluster else ""
        raise internal(f"failed to read namespace {name}{where}: {error}") from error


async def find_namespace(
    attributes: Attributes, webhooks: Iterable[Webhook], *, store: StoreView, read: ReadNamespace | None
) -> NamespaceLabels:
    """Return the labels of a request's namespace, if the namespaceSelector of a webhook needs them.

    A namespace that is not in the store is read from the apiserver: it may be new.
    """
    if not any(needs_namespace(webhook, attributes) for webhook in webhooks):
        return NamespaceLabels({})
    cluster, name = attributes.cluster, attributes.namespace
    # kube-apiserver gives each Namespace this label.
    own = {NAMESPACE_LABEL: name}
    if read is not None and store.get(cluster, NAMESPACE, "", name) is None:
        try:
            await read(cluster, name)
        except StatusError as error:
            return NamespaceLabels(own, error)
    found = store.get(cluster, NAMESPACE, "", name)
    if found is None and attributes.is_namespace:
        # A DELETE, and an UPDATE of a subresource, have the stored Namespace.
        found = attributes.old_object
    if found is None:
        details = StatusDetails(name=name, kind="namespaces")
        where = f" in logical cluster {cluster}" if cluster else ""
        return NamespaceLabels(own, StatusError(404, "NotFound", f'namespaces "{name}" not found{where}', details))
    return NamespaceLabels({**read_labels(found), **own})


def match_namespace(webhook: Webhook, attributes: Attributes, namespace: NamespaceLabels) -> Verdict:
    """Match a webhook's namespaceSelector (k8s.io/apiserver pkg/admission/plugin/webhook/predicates/namespace)."""
    stage, selector = Stage.NAMESPACE_SELECTOR, webhook.namespace_selector
    if selector.problem:
        return Verdict(stage, ok=False, reason=selector.problem, error=internal(selector.problem))
    if not attributes.namespace and not attributes.is_namespace:
        return Verdict(stage, ok=True, reason="it does not filter cluster-scoped objects")
    if selector.selects_everything:
        return Verdict(stage, ok=True, reason="it selects everything")
    if _is_own_namespace(attributes):
        labels = read_labels(attributes.object)
        return _build_verdict(stage, selector.selects(labels), labels)
    if namespace.error is not None and not selector.reads_name_only:
        return Verdict(stage, ok=False, reason=str(namespace.error), error=namespace.error)
    return _build_verdict(stage, selector.selects(namespace.labels), namespace.labels)


def _build_verdict(stage: Stage, ok: bool, labels: Mapping[str, str]) -> Verdict:  # noqa: FBT001 - private
    shown = ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "none"
    return Verdict(stage, ok, f"{'selects' if ok else 'does not select'} the labels {shown}")


def match_object(webhook: Webhook, attributes: Attributes) -> Verdict:
    """Match a webhook's objectSelector: the new or the old object (upstream: predicates/object)."""
    stage, selector = Stage.OBJECT_SELECTOR, webhook.object_selector
    if selector.problem:
        return Verdict(stage, ok=False, reason=selector.problem, error=internal(selector.problem))
    if selector.selects_everything:
        return Verdict(stage, ok=True, reason="it selects everything")
    documents = (attributes.object, attributes.old_object)
    found = [read_labels(document) for document in documents if isinstance(as_object(document).get("metadata"), dict)]
    for labels in found:
        if selector.selects(labels):
            return _build_verdict(stage, ok=True, labels=labels)
    return _build_verdict(stage, ok=False, labels=found[0] if found else {})


def match_kind(relevant: RelevantWebhook) -> Verdict:
    """Check that the kind of the object that a webhook gets is known."""
    invocation = relevant.invocation
    if invocation.kind is None:
        group, version, resource = invocation.resource
        text = f"unable to convert to {group or 'core'}/{version}, Resource={resource}: unknown kind"
        return Verdict(Stage.KIND, ok=False, reason=text, error=internal(text))
    return Verdict(Stage.KIND, ok=True, reason=f"it gets a {invocation.kind.kind} of {invocation.kind.api_version}")


def check_filters(relevant: RelevantWebhook, attributes: Attributes, namespace: NamespaceLabels) -> tuple[Verdict, ...]:
    """Return the verdicts of all filters except matchConditions, for a webhook whose rules match a request."""
    return (
        match_kind(relevant),
        match_namespace(relevant.webhook, attributes, namespace),
        match_object(relevant.webhook, attributes),
    )


def find_barrier(answers: tuple[Verdict, ...]) -> Verdict | None:
    """Return the verdict that prevents a call, None if there is none.

    A mismatch comes before every error: a filter that does not match skips the webhook, even if another one has an
    error.
    """
    mismatch = next((answer for answer in answers if not answer.ok and answer.error is None), None)
    return mismatch or next((answer for answer in answers if answer.error is not None), None)


Convert = Callable[[JSON, GroupVersionKind], Awaitable[JSON]]
"""Returns an object in another version; raises StatusError."""


class CallWebhook(Protocol):
    """Calls a webhook, as `fleethook.engines.dispatch.call.webhook_call_and_audit.WebhookCaller.call` does."""

    async def __call__(
        self, relevant: RelevantWebhook, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
    ) -> WebhookResponse:
        """Return the webhook's response; raises CallingError, StatusError."""


class RequestContext(NamedTuple):
    """The inputs and outputs of a phase for one request."""

    namespace: NamespaceLabels
    deadline: Deadline
    call_webhook: CallWebhook
    convert: Convert
    set_defaults: Convert
    """Returns an object with the defaults that its definition has for the kind."""
    evaluator: ConditionEvaluator
    patching: Patcher
    audit: Audit
    warnings: list[str]


class VersionedRequest(NamedTuple):
    """A request in the version that a webhook gets."""

    relevant: RelevantWebhook
    kind: GroupVersionKind
    attributes: Attributes


class CallDecider:
    """Decides for one request which webhooks are called."""

    def __init__(self, context: RequestContext) -> None:
        """Initialize the decider for a request."""
        self._context: Final = context
        self._scope: tuple[Attributes, GroupVersionKind, Activation] | None = None
        self._budget: Final = Budget()
        self._versions: dict[GroupVersionKind, tuple[Attributes, Attributes]] = {}

    @property
    def namespace(self) -> NamespaceLabels:
        """The labels of the request's namespace."""
        return self._context.namespace

    async def should_call(self, relevant: RelevantWebhook, attributes: Attributes) -> bool:
        """Return whether a webhook is called.

        Raises:
            StatusError: The filters have no result; the request is refused.
        """
        barrier = find_barrier(check_filters(relevant, attributes, self._context.namespace))
        if barrier is None and relevant.webhook.conditions:
            versioned = await self.build_versioned(relevant, attributes)
            with child_span("evaluate matchConditions", attributes={"fleethook.webhook": relevant.webhook.uid}) as span:
                verdict = await self.evaluate_conditions(relevant.webhook, versioned)
                if span is not None:
                    span.note({"fleethook.matched": verdict.ok})
            barrier = None if verdict.ok else verdict
        if barrier is not None and barrier.error is not None:
            raise barrier.error
        return barrier is None

    async def build_versioned(self, relevant: RelevantWebhook, attributes: Attributes) -> VersionedRequest:
        """Return a request in the version that a webhook gets; raises StatusError."""
        kind = relevant.invocation.kind
        assert kind is not None, "match_kind refuses unknown kinds"
        return VersionedRequest(relevant, kind, await self.convert(attributes, kind))

    async def convert(self, attributes: Attributes, kind: GroupVersionKind) -> Attributes:
        """Return a request with its objects in another version, converted once for all webhooks; raises StatusError."""
        if kind == attributes.kind:
            return attributes
        known = self._versions.get(kind)
        if known is not None and known[0] is attributes:
            return known[1]
        convert = self._context.convert
        versioned = attributes._replace(
            object=await convert(attributes.object, kind), old_object=await convert(attributes.old_object, kind)
        )
        self._versions[kind] = (attributes, versioned)
        return versioned

    async def evaluate_conditions(self, webhook: Webhook, versioned: VersionedRequest) -> Verdict:
        """Evaluate a webhook's matchConditions."""
        _, kind, attributes = versioned
        scope = self._bind_scope(attributes, kind)
        verdict = await self._context.evaluator.evaluate(
            webhook, scope, cluster=attributes.cluster, budget=self._budget, deadline=self._context.deadline
        )
        shown = "; ".join(f"{name}: {result}" for name, result in verdict.results)
        error = None
        if verdict.errors:
            error = forbidden(attributes.resource_name, attributes.name, _join_errors(verdict.errors))
        return Verdict(Stage.CONDITIONS, verdict.matched, shown, error)

    def _bind_scope(self, versioned: Attributes, kind: GroupVersionKind) -> Activation:
        """Return the variables of matchConditions; webhooks that get the same version share them."""
        known = self._scope
        if known is not None and known[0] is versioned and known[1] == kind:
            return known[2]
        scope = Activation(
            object_=versioned.object,
            old_object=versioned.old_object,
            request=build_condition_request(versioned, kind=kind),
        )
        self._scope = (versioned, kind, scope)
        return scope


def _join_errors(errors: tuple[str, ...]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
