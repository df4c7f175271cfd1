"""The routes of reviews about workloads, overriders and their subjects."""

from collections.abc import Awaitable, Callable, Sequence
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
    validate_overrider,
    validate_subject,
)
from fleethook.engines.overrider.admission.read_your_writes import FreshReads, LiveSource, ensure_fresh_overrider
from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun
from fleethook.engines.overrider.admission.workload_admission import mutate_workload
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER
from fleethook.server.reviews.admission_endpoint import (
    Conclude,
    Decided,
    ReviewRoute,
    change_response,
    make_admission_route,
)
from fleethook.server.reviews.http_endpoint import SWITCH_OFF_HINT
from fleethook.work.threads_and_gc import Worker


def overrider_routes(
    store: StoreView,
    plans: PlanCache,
    live: LiveSource | None,
    *,
    warning_share: float = 1.0,
    conclude: Conclude | None = None,
    findings: Callable[[], Sequence[str]] = tuple,
    worker: Worker | None = None,
    dry_runs: ServerDryRun | None = None,
) -> list[ReviewRoute]:
    """Return the routes of YurtAppOverriders.

    Args:
        store: The objects.
        plans: The plans that were compiled from them.
        live: The apiserver to read current objects from; None if there is none.
        warning_share: The share of a subject's workloads above which a rollout is reported. 1 reports none.
        conclude: Prepares the cluster for an admitted overrider before kube-apiserver stores it.
        findings: Returns warnings about the cluster's treatment of overriders, for each overrider that is written.
        worker: Renders workloads in a thread; None for a worker of its own.
        dry_runs: Sends rendered workloads to the apiserver before an overrider is admitted; None sends none.
    """
    render = partial(mutate_workload, store=store, plans=plans)

    def validate(request: AdmissionRequest) -> Decided:
        decided = validate_overrider(request, store=store, warning_share=warning_share)
        further = tuple(findings())
        return change_response(decided, lambda made: msgspec.structs.replace(made, warnings=(*made.warnings, *further)))

    workloads = overriders = None
    if live is not None:
        workloads = FreshReads(store, plans, live, worker or Worker()).ensure
        overriders = partial(_prepare_overrider, store=store, live=live)
    fits = "Check that a {} still fits its overrider"
    checked = conclude_edit = None
    if dry_runs is not None:
        checked = LiveAdmission(dry_runs, store, worker or Worker())
        conclude_edit = checked.check_subject
    conclude_written = conclude if checked is None else _chain(checked.check_overrider, conclude)
    make_route = partial(make_admission_route, hint=SWITCH_OFF_HINT)
    edits = partial(make_route, handler=partial(validate_subject, store=store), conclude=conclude_edit)
    # A YurtAppDaemon and a YurtAppSet v1beta1 select node pools by their labels. A YurtAppSet v1alpha1 lists them.
    pool_kinds = (YURT_APP_OVERRIDER, NODE_POOL)
    dry_run = "Validate a YurtAppOverrider and render it for every pool without applying it"
    return [
        make_route(MUTATE_DEPLOYMENT, "Render a Deployment for its node pool", render, prepare=workloads),
        make_route(MUTATE_STATEFULSET, "Render a StatefulSet for its node pool", render, prepare=workloads),
        make_route(MUTATE_OVERRIDER, "Set the defaults of a YurtAppOverrider", default_overrider, pure=True),
        make_route(VALIDATE_OVERRIDER, dry_run, validate, prepare=overriders, conclude=conclude_written),
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


def _prepare_overrider(request: AdmissionRequest, *, store: StoreView, live: LiveSource) -> Awaitable[None] | None:
    """Return the work before the validation of an overrider. Every deletion is admitted."""
    return None if request.operation == "DELETE" else ensure_fresh_overrider(request, store=store, live=live)
