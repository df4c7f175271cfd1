"""Dispatching one review: the owner of its schema, that cluster's webhooks, one answer (seed 002)."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from app.control.turns import Turns, do_in_turns
from app.control.worker import Worker
from app.dispatch.asking import Ask, AskAccess, Means
from app.dispatch.attributes import Attributes, attributes_of, claimed_cluster
from app.dispatch.call import Deadline
from app.dispatch.cel.access_check import AccessDecision, AccessQuestion
from app.dispatch.cel.compiler import Compiler
from app.dispatch.configurations import Configurations
from app.dispatch.equivalents import Equivalent, equivalents_of
from app.dispatch.failures import StatusError, forbidden
from app.dispatch.hook_set import Relevant
from app.dispatch.hooks import Hook, Phase
from app.dispatch.judge import Judge
from app.dispatch.limits import Authorizer, RequestLimits
from app.dispatch.match import NamespaceLabels, asked_of, is_exempt, labels_of, needs_namespace
from app.dispatch.mutating import Mutating
from app.dispatch.own import OwnEndpoints
from app.dispatch.owner import Ownership, find_owner
from app.dispatch.patching import Patching
from app.dispatch.records import Audit, warnings_of
from app.dispatch.validating import validate
from app.model.admission import AdmissionRequest, Response, StatusCause, StatusDetails
from app.model.gvk import GroupKind, GroupVersionKind
from app.model.json import JSON, JSONObject
from app.store import Store

NAMESPACE: Final = GroupKind("", "Namespace")
_LIMITS: Final = RequestLimits()


class Converter(Protocol):
    """Converts objects between versions of a resource."""

    async def __call__(self, document: JSON, kind: GroupVersionKind, *, target: "Target", deadline: Deadline) -> JSON:
        """Return the object in another version; raises StatusError."""


class Target(NamedTuple):
    """A request, and who is to be asked about it."""

    attributes: Attributes
    ownership: Ownership
    equivalents: tuple[Equivalent, ...]
    relevant: tuple[Relevant, ...]
    exempt: bool


Authorize = Callable[[str, frozenset[AccessQuestion]], Awaitable[Mapping[AccessQuestion, AccessDecision]]]
"""Asks the authorizer of a logical cluster; raises StatusError."""
ReadNamespace = Callable[[str, str], Awaitable[None]]
"""Brings a namespace of a logical cluster up to date in the store; raises StatusError."""


class IsSilent(Protocol):
    """Says whether a webhook is known not to answer, as `app.dispatch.call.Caller.is_silent` does."""

    def __call__(self, hook: Hook, consumer: str) -> bool:
        """Return whether it gave no answer to the last requests of a consumer."""


class Outside(NamedTuple):
    """What dispatching reaches beyond the store."""

    ask: Ask
    convert: Converter
    authorize: Authorize | None = None
    read_namespace: ReadNamespace | None = None
    is_silent: IsSilent = lambda _hook, _consumer: False
    own: OwnEndpoints = OwnEndpoints()
    """The webhooks that are this server itself, which are not called."""


class Dispatched(NamedTuple):
    """How it went: the answer, and what a log line says of it."""

    response: Response
    target: Target | None


class Dispatcher:
    """Answers reviews of every logical cluster from one store.

    Attributes:
        turns: Turns of clusters on the event loop, for long work.
        worker: Runs functions that take long.
        compiler: Compiles long conditions.
    """

    def __init__(
        self,
        store: Store,
        configurations: Configurations,
        outside: Outside,
        *,
        as_kcp: bool = False,
        share: bool = False,
        limits: RequestLimits = _LIMITS,
    ) -> None:
        """Prepare.

        Args:
            store: The objects; indexed as `app.dispatch.owner` and `app.dispatch.equivalents` say.
            configurations: The webhooks, compiled.
            outside: How webhooks and others are reached.
            as_kcp: Whether what cannot be decided goes as in kcp, which lets it through (`app.dispatch.owner`), and
                one denial is told instead of all.
            share: Whether a mutating webhook whose failure is ignored may take only its share of the time left.
            limits: The limits of one request.
        """
        self._limits: Final = limits
        self.turns: Final = Turns()
        self.worker: Final = Worker()
        self.compiler: Final = Compiler(self.worker)
        self._judge: Final = Judge(
            max_cost=limits.cel_cost, worker=self.worker, turns=self.turns, compiler=self.compiler
        )
        self._store: Final = store
        self._configurations: Final = configurations
        self._outside: Final = outside
        self._as_kcp: Final = as_kcp
        self._share: Final = share

    def target(self, request: AdmissionRequest, *, cluster: str, phase: Phase, vouched: bool = False) -> Target:
        """Return who is to be asked about a review: what dispatching and explaining it begin with.

        Args:
            request: The review.
            cluster: The logical cluster that it is made in, by name.
            phase: Of its admission.
            vouched: As `app.dispatch.owner.find_owner` has it.

        Raises:
            msgspec.DecodeError: One of its objects is no JSON.
            StatusError: Its objects are none that can be sent on.
        """
        target = self._owned(request, cluster, vouched=vouched)
        owner = target.ownership.cluster
        if owner is None or target.exempt:
            return target
        return target._replace(relevant=self.relevant(target, owner, phase))

    async def find_target(
        self, request: AdmissionRequest, *, cluster: str, phase: Phase, vouched: bool = False
    ) -> Target:
        """Return what `target` returns, in turns with other clusters."""
        target = self._owned(request, cluster, vouched=vouched)
        owner = target.ownership.cluster
        if owner is None or target.exempt:
            return target
        return target._replace(relevant=await self.find_relevant(target, owner, phase))

    def _owned(self, request: AdmissionRequest, cluster: str, *, vouched: bool) -> Target:
        attributes = attributes_of(request, cluster=cluster)
        group, _, resource = attributes.resource
        ownership = find_owner(
            self._store, cluster=cluster, group=group, resource=resource, as_kcp=self._as_kcp, vouched=vouched
        )
        exempt = is_exempt(attributes)
        if ownership.cluster is None:
            return Target(attributes, ownership, (), (), exempt)
        equivalents = equivalents_of(
            self._store,
            cluster=cluster,
            resource=attributes.resource,
            subresource=attributes.subresource,
            kind=attributes.kind,
            schema=ownership.schema,
        )
        return Target(attributes, ownership, equivalents, (), exempt)

    def relevant(self, target: Target, cluster: str, phase: Phase) -> tuple[Relevant, ...]:
        """Return the webhooks of a cluster whose rules are about a request."""
        attributes = target.attributes
        hooks = self._configurations.hooks(cluster, phase)
        return hooks.relevant(asked_of(attributes), attributes.kind, target.equivalents)

    async def find_relevant(self, target: Target, cluster: str, phase: Phase) -> tuple[Relevant, ...]:
        """Return what `relevant` returns, in turns with other clusters."""
        attributes = target.attributes
        hooks = await self._configurations.find(cluster, phase, turns=self.turns, worker=self.worker)
        work = hooks.find(asked_of(attributes), attributes.kind, target.equivalents)
        return await do_in_turns(work, turns=self.turns, worker=self.worker, cluster=attributes.cluster)

    async def find_hooks(self, target: Target, phase: Phase) -> Iterator[Hook]:
        """Return all webhooks of the owner, those that are not about the request included."""
        owner = target.ownership.cluster
        if owner is None:
            return iter(())
        return (await self._configurations.find(owner, phase, turns=self.turns, worker=self.worker)).each()

    @property
    def limits(self) -> RequestLimits:
        """The limits of one request."""
        return self._limits

    def is_silent(self, hook: Hook, consumer: str) -> bool:
        """Return whether a webhook gave no answer to the last requests of a consumer."""
        return self._outside.is_silent(hook, consumer)

    async def dispatch(
        self, request: AdmissionRequest, *, cluster: str, phase: Phase, deadline: Deadline, vouched: bool = False
    ) -> Dispatched:
        """Return the answer to a review, of all webhooks together.

        Args:
            request: The review.
            cluster: The logical cluster that it is made in, by name.
            phase: Of its admission.
            deadline: When it has to be answered.
            vouched: As `app.dispatch.owner.find_owner` has it.

        Raises:
            msgspec.DecodeError: One of its objects is no JSON.
        """
        audit, warnings = Audit(), list[str]()
        target: Target | None = None
        refusals: list[StatusError] = []
        made: JSON = None
        try:
            target = await self.find_target(request, cluster=cluster, phase=phase, vouched=vouched)
            attributes = target.attributes
            claimed = claimed_cluster(request)
            if claimed not in ("", cluster):
                warnings.append(f"the object says that it is of {claimed}; webhooks are told {cluster}, where it is")
            if target.exempt:
                return Dispatched(Response(allowed=True, warnings=warnings_of(warnings)), target)
            if target.ownership.cluster is None:
                raise forbidden(attributes.resource_name, attributes.name, target.ownership.problem)
            means = await self.means(target, deadline, audit, warnings)
            if phase == "mutating":
                made = await self._mutate(target, means)
            else:
                refusals = await validate(target.relevant, attributes, means)
        except StatusError as error:
            # Its traceback leads back to here, and holds the answers of webhooks until the collector finds the cycle.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            refusals = [error]
        if refusals:
            told = refusals[:1] if self._as_kcp else refusals
            return Dispatched(_refused(told, audit, warnings), target)
        operations: Sequence[JSONObject] = ()
        if made is not None:
            operations = await Patching(self.worker, cluster).response_patch(request.object, made)
        response = Response(
            allowed=True,
            patch=operations,
            warnings=warnings_of(warnings),
            audit_annotations=audit.annotations,
        )
        return Dispatched(response, target)

    async def _mutate(self, target: Target, means: Means) -> JSON:
        mutating = Mutating(target.relevant, target.attributes, means, share=self._share)
        await mutating.round(0)
        if mutating.again:
            await mutating.round(1)
        return mutating.attributes.object

    async def means(self, target: Target, deadline: Deadline, audit: Audit, warnings: list[str]) -> Means:
        """Return what a phase needs of the world to answer one request; the last two are what it leaves."""
        outside = self._outside

        async def convert(document: JSON, kind: GroupVersionKind) -> JSON:
            return await outside.convert(document, kind, target=target, deadline=deadline)

        authorize: AskAccess | None = None
        if outside.authorize is not None:
            authorize = Authorizer(outside.authorize, target.attributes, limit=self._limits.access_reviews)
        return Means(
            namespace=await self.namespace(target.attributes, [one.hook for one in target.relevant]),
            deadline=deadline,
            ask=outside.ask,
            convert=convert,
            authorize=authorize,
            judge=self._judge,
            patching=Patching(self.worker, target.attributes.cluster),
            turns=self.turns,
            audit=audit,
            warnings=warnings,
            max_calls=self._limits.webhooks,
            own=outside.own,
        )

    async def namespace(self, attributes: Attributes, hooks: Iterable[Hook]) -> NamespaceLabels:
        """Return the labels of the namespace that a request is in, where any of these webhooks has to know them.

        It is read anew if the store does not have it: it may have been made just before what is in it.
        """
        if not any(needs_namespace(hook, attributes) for hook in hooks):
            return NamespaceLabels({})
        cluster, name = attributes.cluster, attributes.namespace
        if self._outside.read_namespace is not None and self._store.get(cluster, NAMESPACE, "", name) is None:
            try:
                await self._outside.read_namespace(cluster, name)
            except StatusError as error:
                return NamespaceLabels({}, error)
        found = self._store.get(cluster, NAMESPACE, "", name)
        if found is None:
            details = StatusDetails(name=name, kind="namespaces")
            where = f" in logical cluster {cluster}" if cluster else ""
            return NamespaceLabels({}, StatusError(404, "NotFound", f'namespaces "{name}" not found{where}', details))
        return NamespaceLabels(labels_of(found))


def _refused(refusals: Sequence[StatusError], audit: Audit, warnings: Sequence[str]) -> Response:
    """Return the answer that refuses a request: the first reason is its status, the others are causes of it."""
    status = refusals[0].status
    if len(refusals) > 1:
        others = (one.status for one in refusals[1:])
        more = tuple(StatusCause(message=other.message, reason=other.reason) for other in others)
        details = status.details or StatusDetails()
        details = msgspec.structs.replace(details, causes=(*details.causes, *more))
        status = msgspec.structs.replace(status, details=details)
    return Response(
        allowed=False,
        code=status.code,
        reason=status.reason,
        message=status.message,
        warnings=warnings_of(warnings),
        audit_annotations=audit.annotations,
        status=status,
    )
