"""Dispatches one review: finds the owner of its schema, calls that cluster's webhooks and merges their answers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.attributes_and_cluster_annotation import (
    Attributes,
    build_attributes,
    describe_other_claim,
)
from fleethook.engines.dispatch.call.phases_and_warnings import (
    MutatingPhase,
    build_refusal,
    limit_warnings,
    run_validating_phase,
)
from fleethook.engines.dispatch.call.recorded_calls import CallTrace
from fleethook.engines.dispatch.call.review_response_and_patch import Patcher
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError, forbidden
from fleethook.engines.dispatch.match.equivalent_resources import Equivalent, find_definition, find_equivalents
from fleethook.engines.dispatch.match.match_conditions import ConditionEvaluator
from fleethook.engines.dispatch.match.selectors_and_decision import (
    CallWebhook,
    NamespaceLabels,
    ReadNamespace,
    RequestContext,
    build_rule_attributes,
    find_namespace,
    is_exempt,
    needs_namespace,
)
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import Ownership, find_owner
from fleethook.engines.dispatch.webhooks.cluster_webhooks import Configurations, RelevantWebhook, WebhookIndex
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase, Webhook
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject
from fleethook.server.reviews.records_and_traces import AskedCall
from fleethook.work.threads_and_gc import Work, Worker, run_work
from fleethook.workload_schema.custom_resource_schema import find_version

ConvertObject = Callable[..., Awaitable[JSON]]
"""Converts objects between versions, as `fleethook.engines.dispatch.version_conversion.ObjectConverter` does."""


class MatchedRequest(NamedTuple):
    """A request, the owner of its schema, and the webhooks whose rules match it."""

    attributes: Attributes
    ownership: Ownership
    equivalents: tuple[Equivalent, ...]
    relevant: tuple[RelevantWebhook, ...]
    exempt: bool


class Dependencies(NamedTuple):
    """The functions with which the dispatcher leaves the process."""

    call_webhook: CallWebhook
    convert: ConvertObject
    read_namespace: ReadNamespace | None = None


class DispatchResult(NamedTuple):
    """The answer to a review, its target for the log line, and the calls that it depended on."""

    response: Response
    target: MatchedRequest | None
    calls: Sequence[AskedCall] = ()
    """Empty if the dispatcher does not trace calls."""


class Dispatcher:
    """Answers reviews of every logical cluster from one store.

    Attributes:
        worker: Runs long functions in a thread.
    """

    def __init__(
        self,
        store: Store,
        configurations: Configurations,
        dependencies: Dependencies,
        *,
        as_kcp: bool = False,
        sends_as_kcp: bool = False,
        traces: bool = False,
    ) -> None:
        """Initialize the dispatcher.

        Args:
            store: The objects, indexed by `fleethook.engines.dispatch.schema_owner_and_cluster_paths.INDEXES`.
            configurations: The compiled webhooks.
            dependencies: The functions with which the dispatcher leaves the process.
            as_kcp: Decide like kcp if the owner of a schema is unknown
                (`fleethook.engines.dispatch.schema_owner_and_cluster_paths`), and report only the first denial.
            sends_as_kcp: As for `fleethook.engines.dispatch.attributes_and_cluster_annotation.build_attributes`.
            traces: Return the calls that an answer depended on.
        """
        self._traces: Final = traces
        self.worker: Final = Worker()
        self._evaluator: Final = ConditionEvaluator(self.worker)
        self._store: Final = store
        self._configurations: Final = configurations
        self._dependencies: Final = dependencies
        self._as_kcp: Final = as_kcp
        self._build_attributes: Final = partial(build_attributes, sends_as_kcp=sends_as_kcp)

    def find_target(
        self, request: AdmissionRequest, *, cluster: str, phase: Phase, cluster_exists: bool = False
    ) -> Work[MatchedRequest]:
        """Find the owner of a request's schema, and the webhooks whose rules match the request.

        Args:
            request: The review.
            cluster: The name of the consumer's logical cluster.
            phase: The admission phase.
            cluster_exists: As in `fleethook.engines.dispatch.schema_owner_and_cluster_paths.find_owner`.

        Raises:
            msgspec.DecodeError: An object of the review is not JSON.
            StatusError: An object of the review cannot be forwarded, or the owner has too many webhooks.
        """
        attributes = self._build_attributes(request, cluster=cluster)
        target = self._resolve_owner(attributes, cluster_exists=cluster_exists)
        owner = target.ownership.cluster
        if owner is None or target.exempt:
            return target
        return target._replace(relevant=(yield from self.find_relevant(target, owner, phase)))

    def _resolve_owner(self, attributes: Attributes, *, cluster_exists: bool) -> MatchedRequest:
        cluster = attributes.cluster
        group, _, resource = attributes.resource
        ownership = find_owner(
            self._store,
            cluster=cluster,
            group=group,
            resource=resource,
            as_kcp=self._as_kcp,
            cluster_exists=cluster_exists,
        )
        exempt = is_exempt(attributes)
        if ownership.cluster is None:
            return MatchedRequest(attributes, ownership, (), (), exempt)
        equivalents = find_equivalents(
            self._store,
            cluster=cluster,
            resource=attributes.resource,
            subresource=attributes.subresource,
            kind=attributes.kind,
            schema=ownership.schema,
        )
        return MatchedRequest(attributes, ownership, equivalents, (), exempt)

    def find_relevant(self, target: MatchedRequest, cluster: str, phase: Phase) -> Work[tuple[RelevantWebhook, ...]]:
        """Return the webhooks of a cluster whose rules match a request; raises StatusError if it has too many."""
        attributes = target.attributes
        webhooks = yield from self._find_webhooks(cluster, phase)
        if webhooks.problem:
            where = f"logical cluster {cluster}" if cluster else "the cluster"
            text = f"{where} has too many {phase} webhooks: {webhooks.problem}"
            raise forbidden(attributes.resource_name, attributes.name, text)
        return webhooks.find_relevant(build_rule_attributes(attributes), attributes.kind, target.equivalents)

    def _find_webhooks(self, cluster: str, phase: Phase) -> Work[WebhookIndex]:
        return self._configurations.find(cluster, phase, worker=self.worker)

    async def find_webhooks(self, target: MatchedRequest, phase: Phase) -> Sequence[Webhook]:
        """Return all webhooks of the owner, including those whose rules do not match the request."""
        owner = target.ownership.cluster
        return () if owner is None else (await run_work(self._find_webhooks(owner, phase))).webhooks

    def dispatch(
        self, request: AdmissionRequest, *, cluster: str, phase: Phase, deadline: Deadline, cluster_exists: bool = False
    ) -> Work[DispatchResult]:
        """Call the webhooks of one phase and return their merged answer.

        This waits for nothing if no webhook's rules match the request.

        Args:
            request: The review.
            cluster: The name of the consumer's logical cluster.
            phase: The admission phase.
            deadline: The deadline of the request.
            cluster_exists: As in `fleethook.engines.dispatch.schema_owner_and_cluster_paths.find_owner`.

        Raises:
            msgspec.DecodeError: An object of the review is not JSON.
        """
        trace = CallTrace() if self._traces else None
        work = self._dispatch(
            request, cluster=cluster, phase=phase, deadline=deadline, cluster_exists=cluster_exists, trace=trace
        )
        result = yield from work
        return result if trace is None else result._replace(calls=trace.calls)

    def _dispatch(
        self,
        request: AdmissionRequest,
        *,
        cluster: str,
        phase: Phase,
        deadline: Deadline,
        cluster_exists: bool,
        trace: CallTrace | None,
    ) -> Work[DispatchResult]:
        audit, warnings = Audit(), list[str]()
        target: MatchedRequest | None = None
        refusals: list[StatusError] = []
        made: JSON = None
        try:
            target = yield from self.find_target(request, cluster=cluster, phase=phase, cluster_exists=cluster_exists)
            attributes = target.attributes
            if other_claim := describe_other_claim(request, cluster):
                warnings.append(other_claim)
            if target.ownership.cluster is None and not target.exempt:
                raise forbidden(attributes.resource_name, attributes.name, target.ownership.problem)
            if target.exempt or not target.relevant:
                return DispatchResult(Response(allowed=True, warnings=limit_warnings(warnings)), target)
            context = yield self.build_context(target, deadline, audit, warnings, trace=trace)
            if phase == "mutating":
                made = yield self._mutate(target, context)
            else:
                refusals = yield run_validating_phase(target.relevant, attributes, context)
        except StatusError as error:
            # The traceback refers to this frame, and so keeps the answers of webhooks until the collector runs.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            refusals = [error]
        if refusals:
            reported = refusals[:1] if self._as_kcp else refusals
            return DispatchResult(build_refusal(reported, audit, warnings), target)
        operations: Sequence[JSONObject] = ()
        if made is not None:
            operations = yield Patcher(self.worker, cluster).diff_response(request.object, made)
        response = Response(
            allowed=True, patch=operations, warnings=limit_warnings(warnings), audit_annotations=audit.annotations
        )
        return DispatchResult(response, target)

    async def _mutate(self, target: MatchedRequest, context: RequestContext) -> JSON:
        mutating = MutatingPhase(target.relevant, target.attributes, context)
        await mutating.run_round(0)
        if mutating.needs_reinvocation:
            await mutating.run_round(1)
        return mutating.attributes.object

    async def build_context(
        self,
        target: MatchedRequest,
        deadline: Deadline,
        audit: Audit,
        warnings: list[str],
        *,
        trace: CallTrace | None = None,
    ) -> RequestContext:
        """Return the context of one request; a phase appends to ``audit``, ``warnings`` and ``trace``."""
        dependencies, attributes = self._dependencies, target.attributes

        async def convert(document: JSON, kind: GroupVersionKind) -> JSON:
            return await dependencies.convert(document, kind, target=target, deadline=deadline, trace=trace)

        async def set_defaults(document: JSON, kind: GroupVersionKind) -> JSON:
            version = find_version(self._find_definition(target) or {}, kind.version)
            return await patching.set_defaults(document, version.schema if version else None)

        patching = Patcher(self.worker, attributes.cluster)
        call_webhook = dependencies.call_webhook
        webhooks = [relevant_webhook.webhook for relevant_webhook in target.relevant]
        namespace = await self.find_namespace(attributes, webhooks)
        if trace is not None:
            call_webhook = trace.watch_webhooks(call_webhook)
            if any(needs_namespace(webhook, attributes) for webhook in webhooks):
                trace.note_namespace(attributes, namespace)
        return RequestContext(
            namespace=namespace,
            deadline=deadline,
            call_webhook=call_webhook,
            convert=convert,
            set_defaults=set_defaults,
            evaluator=self._evaluator,
            patching=patching,
            audit=audit,
            warnings=warnings,
        )

    def _find_definition(self, target: MatchedRequest) -> JSONObject | None:
        resource, schema = target.attributes.resource, target.ownership.schema
        return find_definition(
            self._store,
            cluster=target.attributes.cluster,
            group=resource.group,
            resource=resource.resource,
            schema=schema,
        )

    async def find_namespace(self, attributes: Attributes, webhooks: Iterable[Webhook]) -> NamespaceLabels:
        """Return the labels of a request's namespace, if the namespaceSelector of a webhook needs them."""
        read = self._dependencies.read_namespace
        return await find_namespace(attributes, webhooks, store=self._store, read=read)
