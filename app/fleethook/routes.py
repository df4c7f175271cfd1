"""The table of review routes: path, handler, and the kinds that its answers depend on."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from fleethook.cluster.kubernetes.resources import DEFINITIONS
from fleethook.cluster.registration.paths import (
    CLUSTER_EXPLAIN,
    CLUSTER_MUTATE,
    CLUSTER_VALIDATE,
    EXPLORE,
    EXPLORE_BAR,
    EXPLORE_FOO,
    INTERPRET,
    MUTATE_DEPLOYMENT,
    MUTATE_KARMADA,
    MUTATE_OVERRIDER,
    MUTATE_STATEFULSET,
    OBSERVE,
    VALIDATE_APP_DAEMON,
    VALIDATE_APP_SET,
    VALIDATE_APP_SET_V1BETA1,
    VALIDATE_CONFIG_MAP,
    VALIDATE_CUSTOMIZATION,
    VALIDATE_HOOKS,
    VALIDATE_KARMADA,
    VALIDATE_MUTATING,
    VALIDATE_OVERRIDER,
    VALIDATE_VALIDATING,
)
from fleethook.cluster.store import StoreView
from fleethook.engines.crds.instance.karmada_admission import mutate_karmada, validate_karmada
from fleethook.engines.dispatch.explain import Explanation
from fleethook.engines.dispatch.review.dispatch_endpoint import DispatchContext, DispatchEndpoint, ExplainEndpoint
from fleethook.engines.interpret.chain import Chain, PythonLayer
from fleethook.engines.interpret.hooks.hook_configuration_admission import validate_configuration
from fleethook.engines.interpret.review.interpret_endpoint import InterpretEndpoint
from fleethook.engines.interpret.samples.bar import bar
from fleethook.engines.interpret.samples.foo import foo
from fleethook.engines.overrider.admission.live_admission import LiveAdmission
from fleethook.engines.overrider.admission.overrider_admission import default_overrider, validate_overrider_in_slices
from fleethook.engines.overrider.admission.read_your_writes import FreshReads, LiveSource, ensure_fresh_overrider
from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun
from fleethook.engines.overrider.admission.subject_admission import Policy, validate_subject_in_slices
from fleethook.engines.overrider.admission.workload_admission import mutate_workload_in_slices
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.guard import OFF, GuardLimits
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, AdmissionReview, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.karmada import (
    CONFIG_MAP,
    CUSTOMIZATION,
    EXPLORING_CONFIGURATION,
    INTERPRETER_CONFIGURATION,
    InterpretReview,
)
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER
from fleethook.server.logs.logs import LogSink
from fleethook.server.metrics.metrics import Metrics
from fleethook.server.protocol.body_memory import BodyBudget
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint, Conclude, ReviewHandler
from fleethook.server.reviews.endpoint import MAX_ON_LOOP, SWITCH_OFF_HINT, Endpoint
from fleethook.server.reviews.recording import RecordReview
from fleethook.tracing.spans import StartTrace
from fleethook.work.fair_turns import Executor
from fleethook.work.slice_runner import Slices
from fleethook.work.slices import Sliced, run_until_pause

_INTERPRETED_FROM = (
    EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, CUSTOMIZATION, CONFIG_MAP, DEFINITIONS.group_kind,
)  # fmt: skip


class Make(Protocol):
    """Makes the endpoint of a route."""

    def __call__(  # noqa: PLR0913 - one parameter for each part of the server that endpoints share
        self,
        path: str,
        *,
        metrics: Metrics,
        body_limit: int,
        log: LogSink | None,
        known_clients_only: bool,
        worker: Executor,
        bodies: BodyBudget | None,
        record: RecordReview | None,
        trace: StartTrace | None,
    ) -> Endpoint:
        """Return the endpoint."""


class ReviewRoute(NamedTuple):
    """A route that takes reviews, for the server and for OpenAPI."""

    path: str
    summary: str
    make: Make
    review: type[Any] = AdmissionReview
    needs: tuple[GroupKind, ...] = ()
    """Kinds that every answer depends on. If the kinds depend on the review, the handler checks them itself."""
    authorizes: bool = False
    """Whether callers need the right to ask about a logical cluster."""
    answer: type[Any] | None = None
    """The type of the answer; None for that of the review."""


def _make_admission_route(
    path: str, summary: str, handler: ReviewHandler, *, needs: tuple[GroupKind, ...] = (), **rest: Any
) -> ReviewRoute:
    """Return a route; ``rest`` is for `AdmissionEndpoint`."""
    return ReviewRoute(path, summary, partial(_make_admission_endpoint, handler=handler, **rest), needs=needs)


def _make_admission_endpoint(path: str, *, handler: ReviewHandler, **rest: Any) -> Endpoint:
    return AdmissionEndpoint(path, handler, **rest)


def overrider_routes(  # noqa: PLR0913 - one parameter for each service of the server
    store: StoreView,
    plans: PlanCache,
    live: LiveSource | None,
    *,
    unfit_subject_edits: Policy,
    rollout_limits: GuardLimits = OFF,
    conclude: Conclude | None = None,
    findings: Callable[[], Sequence[str]] = tuple,
    slices: Slices | None = None,
    dry_runs: ServerDryRun | None = None,
) -> list[ReviewRoute]:
    """Return the routes of YurtAppOverriders.

    Args:
        store: The objects.
        plans: The plans that were compiled from them.
        live: The apiserver to read current objects from; None if there is none.
        unfit_subject_edits: The answer to edits of subjects that no longer fit their overriders.
        rollout_limits: The rollouts of overriders' edits that are reported or refused.
        conclude: Prepares the cluster for an admitted overrider before kube-apiserver stores it.
        findings: Returns warnings about the cluster's treatment of overriders, for each overrider that is written.
        slices: The turns that long checks take; None for turns of their own.
        dry_runs: Sends rendered workloads to the apiserver before an overrider is admitted; None sends none.
    """

    def render(request: AdmissionRequest) -> Response | Sliced[Response]:
        work = mutate_workload_in_slices(request, store=store, plans=plans)
        is_small = len(request.object_raw) + len(request.old_object_raw) <= MAX_ON_LOOP
        # Only a review that has to compile a plan pauses.
        return run_until_pause(work) if is_small else work

    def validate(request: AdmissionRequest) -> Sliced[Response]:
        return validate_and_warn(request, tuple(findings()))

    def validate_and_warn(request: AdmissionRequest, further: Sequence[str]) -> Sliced[Response]:
        response = yield from validate_overrider_in_slices(request, store=store, limits=rollout_limits)
        return msgspec.structs.replace(response, warnings=(*response.warnings, *further))

    def validate_edit(request: AdmissionRequest) -> Sliced[Response]:
        return validate_subject_in_slices(request, store=store, policy=unfit_subject_edits)

    shared = slices or Slices()
    workloads = overriders = None
    if live is not None:
        workloads = FreshReads(store, plans, live, shared).ensure
        overriders = partial(_prepare_overrider, guards=not rollout_limits.is_off, store=store, live=live)
    fits = "Check that a {} still fits its overrider"
    checked = conclude_edit = None
    if dry_runs is not None:
        checked = LiveAdmission(dry_runs, store, shared, unfit_subject_edits)
        conclude_edit = checked.check_subject
    conclude_overrider = conclude if checked is None else _chain(checked.check_overrider, conclude)
    make_route = partial(_make_admission_route, hint=SWITCH_OFF_HINT)
    edits = partial(make_route, handler=validate_edit, slices=shared, conclude=conclude_edit)
    # The labels of node pools decide which of them a daemon has, and a set of v1beta1; one of v1alpha1 lists its own.
    pool_kinds = (YURT_APP_OVERRIDER, NODE_POOL)
    dry_run = "Validate a YurtAppOverrider and render it for every pool without applying it"
    return [
        make_route(MUTATE_DEPLOYMENT, "Render a Deployment for its node pool", render, prepare=workloads),
        make_route(MUTATE_STATEFULSET, "Render a StatefulSet for its node pool", render, prepare=workloads),
        make_route(MUTATE_OVERRIDER, "Set the defaults of a YurtAppOverrider", default_overrider, pure=True),
        make_route(
            VALIDATE_OVERRIDER, dry_run, validate, prepare=overriders, conclude=conclude_overrider, slices=shared
        ),
        edits(VALIDATE_APP_SET, fits.format("YurtAppSet"), needs=(YURT_APP_OVERRIDER,)),
        edits(VALIDATE_APP_DAEMON, fits.format("YurtAppDaemon"), needs=pool_kinds),
        edits(VALIDATE_APP_SET_V1BETA1, fits.format("YurtAppSet v1beta1"), needs=pool_kinds),
    ]


def _chain(first: Conclude, then: Conclude | None) -> Conclude:
    """Return the work of both, one after the other."""

    async def conclude(request: AdmissionRequest, response: Response) -> Response | None:
        decided = await first(request, response) or response
        return decided if then is None else await then(request, decided) or decided

    return conclude


def _prepare_overrider(
    request: AdmissionRequest, *, guards: bool, store: StoreView, live: LiveSource
) -> Awaitable[None] | None:
    """Return the work before the validation of an overrider. Without a guard, every deletion is admitted."""
    if request.operation == "DELETE" and not guards:
        return None
    return ensure_fresh_overrider(request, store=store, live=live)


def interpret_routes(
    everything: Chain, validate: Callable[[AdmissionRequest], Sliced[Response]], *, slices: Slices | None = None
) -> list[ReviewRoute]:
    """Return the routes of interpreters.

    Args:
        everything: The chain of all layers.
        validate: Answers reviews of objects that have scripts.
        slices: The turns that long checks take; None for turns of their own.
    """
    shared = slices or Slices()
    chains = (
        (EXPLORE, "Answer an ExploreReview of any kind and operation", everything),
        (INTERPRET, "Answer a ResourceInterpreterContext of any kind and operation", everything),
    )
    samples = (
        (EXPLORE_FOO, "Example hook for Foo: retaining, health", Chain([PythonLayer([foo])])),
        (EXPLORE_BAR, "Example hook for Bar: dependencies, health", Chain([PythonLayer([bar])])),
    )
    validation = "Validate a ResourceExploring- or ResourceInterpreterWebhookConfiguration"
    scripts = "Validate a ResourceInterpreterCustomization and its Lua"
    return [
        _make_admission_route(VALIDATE_HOOKS, validation, validate_configuration, pure=True),
        _make_admission_route(VALIDATE_CUSTOMIZATION, scripts, validate, needs=(CUSTOMIZATION,), slices=shared),
        _make_admission_route(
            VALIDATE_CONFIG_MAP, "Refuse a karmada-config whose Lua does not compile", validate, slices=shared
        ),
        *_make_interpret_routes(chains, needs=_INTERPRETED_FROM),
        *_make_interpret_routes(samples, needs=()),
    ]


def crds_routes() -> list[ReviewRoute]:
    """Return the routes of instances of Karmada."""
    crds = "the CRD tarball of a Karmada"
    return [
        _make_admission_route(MUTATE_KARMADA, f"Set the defaults of {crds}", mutate_karmada, pure=True),
        _make_admission_route(VALIDATE_KARMADA, f"Validate {crds}", validate_karmada, pure=True),
    ]


def dispatch_routes(context: DispatchContext, validate: ReviewHandler) -> list[ReviewRoute]:
    """Return the routes of dispatching.

    Args:
        context: The objects and services that it answers with.
        validate: Answers reviews of webhook configurations.
    """
    mutate = "Ask the mutating webhooks of the cluster that owns the schema, and return their changes as one patch"
    ask = "Ask the validating webhooks of the cluster that owns the schema"
    explained = "Explain for each webhook whether it would be asked, and if not, why"
    validation = "Validate a webhook configuration, and warn about settings without effect"
    return [
        _make_cluster_route(CLUSTER_MUTATE, mutate, partial(DispatchEndpoint, context=context, phase="mutating")),
        _make_cluster_route(CLUSTER_VALIDATE, ask, partial(DispatchEndpoint, context=context, phase="validating")),
        _make_cluster_route(CLUSTER_EXPLAIN, explained, partial(ExplainEndpoint, context=context))._replace(
            answer=Explanation
        ),
        _make_admission_route(OBSERVE, "Admit every review, so that the server records it", _observe, pure=True),
        _make_admission_route(VALIDATE_MUTATING, validation, validate),
        _make_admission_route(VALIDATE_VALIDATING, validation, validate),
    ]


def _observe(request: AdmissionRequest) -> Response:
    """Admit any review: another control plane decides it, and this server only records it."""
    del request
    return admission.allowed()


def _make_cluster_route(path: str, summary: str, make: Make) -> ReviewRoute:
    return ReviewRoute(path, summary, make, authorizes=True)


def _make_interpret_routes(
    chains: Iterable[tuple[str, str, Chain]], *, needs: tuple[GroupKind, ...]
) -> list[ReviewRoute]:
    return [
        ReviewRoute(path, summary, partial(_make_interpret_endpoint, chain=chain), InterpretReview, needs)
        for path, summary, chain in chains
    ]


def _make_interpret_endpoint(path: str, *, chain: Chain, **rest: Any) -> Endpoint:
    return InterpretEndpoint(path, chain, **rest)
