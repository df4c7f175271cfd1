"""What both phases do before a webhook is asked: match it, convert the object for it, look at its conditions."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, Protocol

from app.control.turns import Turns
from app.dispatch.attributes import Attributes
from app.dispatch.call import Deadline
from app.dispatch.cel import AccessDecision, AccessQuestion, Activation
from app.dispatch.conditions import Budget
from app.dispatch.failures import forbidden
from app.dispatch.hook_set import Relevant
from app.dispatch.hooks import Hook
from app.dispatch.judge import Judge
from app.dispatch.limits import RequestLimits
from app.dispatch.match import NamespaceLabels, Stage, Verdict, decide, verdicts
from app.dispatch.own import OwnEndpoints
from app.dispatch.patching import Patching
from app.dispatch.records import Audit
from app.dispatch.review import Answer, request_of_conditions
from app.model.gvk import GroupVersionKind
from app.model.json import JSON

Convert = Callable[[JSON, GroupVersionKind], Awaitable[JSON]]
"""Returns an object in another version; raises StatusError."""
AskAccess = Callable[[frozenset[AccessQuestion]], Awaitable[Mapping[AccessQuestion, AccessDecision]]]
"""Returns what the authorizer says; raises StatusError."""


_NOBODY: Final = OwnEndpoints()
# Webhooks without conditions are matched in some 10 µs each.
MATCHED_PER_TURN: Final = 50


class Ask(Protocol):
    """Asks a webhook, as `app.dispatch.call.Caller.ask` does."""

    async def __call__(
        self, relevant: Relevant, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
    ) -> Answer:
        """Return its answer; raises CallingError, StatusError."""


class Means(NamedTuple):
    """What a phase needs of the world, and what it leaves behind; one for each request."""

    namespace: NamespaceLabels
    deadline: Deadline
    ask: Ask
    convert: Convert
    authorize: AskAccess | None
    """None where there is no authorizer to ask."""
    judge: Judge
    patching: Patching
    turns: Turns
    audit: Audit
    warnings: list[str]
    max_calls: int = RequestLimits().webhooks
    """Webhooks that may be called for the request."""
    own: OwnEndpoints = _NOBODY
    """The webhooks that are this server itself."""


class Versioned(NamedTuple):
    """A request in the version that a webhook is sent."""

    relevant: Relevant
    kind: GroupVersionKind
    attributes: Attributes


class Asking:
    """Whether webhooks are to be asked about one request."""

    def __init__(self, means: Means) -> None:
        """Prepare."""
        self._means: Final = means
        self._scope: tuple[Attributes, GroupVersionKind, Activation] | None = None
        self._budget: Final = Budget(means.judge.max_cost)
        self._access: dict[AccessQuestion, AccessDecision] = {}
        self._versions: dict[GroupVersionKind, tuple[Attributes, Attributes]] = {}

    @property
    def namespace(self) -> NamespaceLabels:
        """The labels of the namespace that the request is in."""
        return self._means.namespace

    async def is_asked(self, relevant: Relevant, attributes: Attributes) -> bool:
        """Return whether a webhook is to be asked.

        Raises:
            StatusError: That cannot be told; nobody is asked then.
        """
        barrier = decide(verdicts(relevant, attributes, self._means.namespace))
        if barrier is None and relevant.hook.conditions:
            verdict = await self.judge(relevant.hook, await self.versioned(relevant, attributes))
            barrier = None if verdict.ok else verdict
        if barrier is not None and barrier.error is not None:
            raise barrier.error
        return barrier is None and not self._is_own(relevant.hook)

    def _is_own(self, hook: Hook) -> bool:
        """Return whether a webhook is this server itself, and note that it is not called for that."""
        reason = self._means.own.reason(hook)
        if not reason:
            return False
        self._means.audit.own(hook)
        self._means.warnings.append(f'admission webhook "{hook.name}" was not called: {reason}')
        return True

    async def versioned(self, relevant: Relevant, attributes: Attributes) -> Versioned:
        """Return a request as a webhook is sent it; raises StatusError."""
        kind = relevant.invocation.kind
        assert kind is not None, "match_kind has let it through"
        return Versioned(relevant, kind, await self.convert(attributes, kind))

    async def convert(self, attributes: Attributes, kind: GroupVersionKind) -> Attributes:
        """Return a request with its objects in another version, converted once for all webhooks; raises StatusError."""
        if kind == attributes.kind:
            return attributes
        known = self._versions.get(kind)
        if known is not None and known[0] is attributes:
            return known[1]
        convert = self._means.convert
        versioned = attributes._replace(
            object=await convert(attributes.object, kind), old_object=await convert(attributes.old_object, kind)
        )
        self._versions[kind] = (attributes, versioned)
        return versioned

    async def judge(self, hook: Hook, versioned: Versioned) -> Verdict:
        """Return whether a webhook's conditions hold, asking the authorizer what they ask it."""
        _, kind, attributes = versioned
        while True:
            scope = self._scope_of(attributes, kind)
            verdict = await self._means.judge.judge(hook, scope, cluster=attributes.cluster, budget=self._budget)
            if not verdict.questions or self._means.authorize is None:
                break
            self._access.update(await self._means.authorize(verdict.questions))
            self._scope = None
        shown = "; ".join(f"{name}: {result}" for name, result in verdict.results)
        error = None
        if verdict.errors:
            error = forbidden(attributes.resource_name, attributes.name, _aggregated(verdict.errors))
        return Verdict(Stage.CONDITIONS, verdict.matched, shown, error)

    def _scope_of(self, versioned: Attributes, kind: GroupVersionKind) -> Activation:
        """Return what conditions see; bound once for all webhooks that are sent the same."""
        known = self._scope
        if known is not None and known[0] is versioned and known[1] == kind:
            return known[2]
        scope = Activation(
            object_=versioned.object,
            old_object=versioned.old_object,
            request=request_of_conditions(versioned, kind=kind),
            access=None if self._means.authorize is None else self._access,
        )
        self._scope = (versioned, kind, scope)
        return scope


def _aggregated(errors: tuple[str, ...]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
