"""The review routes of overriders: admission of workloads, overriders and their subjects."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from fleethook.cluster.registration.paths import (
    MUTATE_DEPLOYMENT,
    MUTATE_OVERRIDER,
    MUTATE_STATEFULSET,
    VALIDATE_APP_DAEMON,
    VALIDATE_APP_SET,
    VALIDATE_APP_SET_V1BETA1,
    VALIDATE_OVERRIDER,
)
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.overrider_admission import (
    LiveAdmission,
    default_overrider,
    validate_overrider_in_slices,
)
from fleethook.engines.overrider.admission.read_your_writes import FreshReads, LiveSource, ensure_fresh_overrider
from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun
from fleethook.engines.overrider.admission.subject_admission import Policy, validate_subject_in_slices
from fleethook.engines.overrider.admission.workload_admission import mutate_workload_in_slices
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.guard import OFF, GuardLimits
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER
from fleethook.server.reviews.admission_endpoint import (
    Conclude,
    ReviewRoute,
    make_admission_route,
)
from fleethook.server.reviews.endpoint import SWITCH_OFF_HINT
from fleethook.work.pausing import Work
from fleethook.work.turns import Turns


def overrider_routes(  # noqa: PLR0913 - one parameter for each service of the server
    store: StoreView,
    plans: PlanCache,
    live: LiveSource | None,
    *,
    unfit_subject_edits: Policy,
    rollout_limits: GuardLimits = OFF,
    conclude: Conclude | None = None,
    findings: Callable[[], Sequence[str]] = tuple,
    turns: Turns | None = None,
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
        turns: The turns that long checks take; None for turns of their own.
        dry_runs: Sends rendered workloads to the apiserver before an overrider is admitted; None sends none.
    """

    def render(request: AdmissionRequest) -> Work[Response]:
        # Only a review that has to compile a plan pauses.
        return mutate_workload_in_slices(request, store=store, plans=plans)

    def validate(request: AdmissionRequest) -> Work[Response]:
        return validate_and_warn(request, tuple(findings()))

    def validate_and_warn(request: AdmissionRequest, further: Sequence[str]) -> Work[Response]:
        response = yield from validate_overrider_in_slices(request, store=store, limits=rollout_limits)
        return msgspec.structs.replace(response, warnings=(*response.warnings, *further))

    def validate_edit(request: AdmissionRequest) -> Work[Response]:
        return validate_subject_in_slices(request, store=store, policy=unfit_subject_edits)

    shared = turns or Turns()
    workloads = overriders = None
    if live is not None:
        workloads = FreshReads(store, plans, live).ensure
        overriders = partial(_prepare_overrider, guards=not rollout_limits.is_off, store=store, live=live)
    fits = "Check that a {} still fits its overrider"
    checked = conclude_edit = None
    if dry_runs is not None:
        checked = LiveAdmission(dry_runs, store, shared, unfit_subject_edits)
        conclude_edit = checked.check_subject
    conclude_overrider = conclude if checked is None else _chain(checked.check_overrider, conclude)
    make_route = partial(make_admission_route, hint=SWITCH_OFF_HINT)
    edits = partial(make_route, handler=validate_edit, turns=shared, conclude=conclude_edit)
    # The labels of node pools decide which of them a daemon has, and a set of v1beta1; one of v1alpha1 lists its own.
    pool_kinds = (YURT_APP_OVERRIDER, NODE_POOL)
    dry_run = "Validate a YurtAppOverrider and render it for every pool without applying it"
    return [
        make_route(MUTATE_DEPLOYMENT, "Render a Deployment for its node pool", render, prepare=workloads),
        make_route(MUTATE_STATEFULSET, "Render a StatefulSet for its node pool", render, prepare=workloads),
        make_route(MUTATE_OVERRIDER, "Set the defaults of a YurtAppOverrider", default_overrider, pure=True),
        make_route(
            VALIDATE_OVERRIDER, dry_run, validate, prepare=overriders, conclude=conclude_overrider, turns=shared
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


def _prepare_overrider(request: AdmissionRequest, *, guards: bool, store: StoreView, live: LiveSource) -> Work[None]:
    """Do the work before the validation of an overrider. Without a guard, every deletion is admitted."""
    if request.operation != "DELETE" or guards:
        yield ensure_fresh_overrider(request, store=store, live=live)
