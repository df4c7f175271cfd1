"""The engine of overriders in a running server: its plans, checks and tasks, and those of the leader."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.followed_objects import Cluster, Followed
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import LiveSource
from fleethook.cluster.kubernetes.watched_resources import MUTATING_CONFIGURATIONS, RESOURCES, SURROUNDINGS
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.registration.paths import (
    MUTATE_DEPLOYMENT,
    MUTATE_OVERRIDER,
    MUTATE_STATEFULSET,
    VALIDATE_APP_DAEMON,
    VALIDATE_APP_SET,
    VALIDATE_APP_SET_V1BETA1,
    VALIDATE_OVERRIDER,
)
from fleethook.cluster.store import Store, StoreView
from fleethook.engines.overrider.admission.fresh_read_requests_and_waits import (
    CATCH_UP_SECONDS,
    FreshReads,
    ensure_fresh_overrider,
)
from fleethook.engines.overrider.admission.overrider_admission import (
    default_overrider,
    validate_overrider,
    validate_subject,
)
from fleethook.engines.overrider.admission.server_dry_run import LiveAdmission, ServerDryRun
from fleethook.engines.overrider.admission.workload_admission import mutate_workload
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import OpenYurtConflicts
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rules.findings_in_files import ManifestReport
from fleethook.engines.overrider.subject.announcements import Announcer, announce_overrider
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL, YURT_APP_OVERRIDER
from fleethook.server.engine_server import BackgroundTask, EngineServer, Leadership, ServerContext
from fleethook.server.health import Check, join_findings
from fleethook.server.metrics import Gauges
from fleethook.server.reviews.admission_endpoint import Conclude, ReviewRoute, make_admission_route
from fleethook.server.reviews.http_checks import SWITCH_OFF_HINT
from fleethook.settings import Settings
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

    validate = partial(validate_overrider, store=store, warning_share=warning_share, conflicts=findings)
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


if TYPE_CHECKING:
    from fleethook.engines.overrider.controller.overrider_controller import OverriderController


def list_resources(settings: Settings) -> Followed:
    """Return the kinds that rendering depends on, and those that show how the cluster treats overriders."""
    del settings
    return Followed(RESOURCES, SURROUNDINGS)


class OverriderServer(EngineServer):
    """Renders workloads, and checks overriders and their subjects.

    Attributes:
        conflicts: Finds settings of the cluster that contradict overriders, None without a cluster.
        plans: The compiled plans.
        manifest_report: The findings about manifests.
    """

    def __init__(self, context: ServerContext) -> None:
        """Prepare."""
        super().__init__(context)
        settings, store = context.settings.section(OverriderSettings), context.store
        self._settings: Final = settings
        self.conflicts: Final = None if context.cluster is None else OpenYurtConflicts(store)
        self.plans: Final = PlanCache()
        self.manifest_report: Final = ManifestReport(store)
        self._controller: OverriderController | None = None
        self._last_counts = (0, 0, 0)
        self.leads = settings.controls
        self._keeps_selection: Final = lists_without_leader(settings)
        self.selects = settings.runs_selection or self._keeps_selection

    def routes(self) -> list[ReviewRoute]:
        """Return the routes of workloads, overriders and their subjects."""
        context, settings = self.context, self._settings
        make_routes = partial(
            overrider_routes,
            context.store,
            self.plans,
            warning_share=settings.rollout_warning_share,
            worker=context.worker,
        )
        if context.cluster is None or self.conflicts is None:
            return make_routes(None)
        return make_routes(
            context.cluster.source,
            # In kcp, the webhook configuration and the workloads are in different clusters, so nothing is selected.
            conclude=None if settings.kcp else _make_conclude(context.store, context.cluster),
            dry_runs=_make_dry_runs(context.cluster, limit=settings.server_dry_runs),
            findings=self.conflicts.findings,
        )

    def checks(self) -> Iterator[Check]:
        """Yield the checks of the cluster's treatment of overriders, and of manifests."""
        if self.conflicts is not None:
            yield from self.conflicts.checks()
        if found := self.manifest_report.findings:
            lines = [f"{one.place}: {one.level}: {one.text}" for one in found]
            yield Check("overriders", ok=True, detail=join_findings(lines))

    async def check_manifests(self, documents: Sequence[Document]) -> None:
        """Check the overriders of the manifests, and log new findings."""
        await self.manifest_report.refresh(documents)

    def tasks(self) -> Iterator[BackgroundTask]:
        """Yield the task that keeps the selection if no leader does."""
        if self._keeps_selection:
            from fleethook.engines.overrider.subject.match_condition_writer import keep_selection  # noqa: PLC0415 - as for `_make_conclude`

            yield "selection", keep_selection(self.context)

    async def lead(self, leadership: Leadership) -> None:
        """Run each task that the settings ask for until cancelled, then drop the controller with its queue."""
        settings = self._settings
        if not settings.controls:
            return
        self._controller = self._make_controller(leadership)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._controller.run(), name="controller")
                if settings.runs_selection:
                    from fleethook.engines.overrider.subject.match_condition_writer import write_selection  # noqa: PLC0415 - as for `_make_conclude`

                    tasks.create_task(write_selection(self.context, leadership.connection), name="selection")
        finally:
            self._last_counts, self._controller = self._counts(), None

    def queue_length(self) -> int:
        """Return the length of the controller's queue, 0 without a controller."""
        return 0 if self._controller is None else len(self._controller.queue)

    def leader_collectors(self) -> Iterator[Collector]:
        """Yield the counters of the controller; after a term of this replica, those of its last term."""

        def counter(name: str, text: str, read: Callable[[], float]) -> Collector:
            return Gauges(name, text, lambda: [({}, read())], family=CounterMetricFamily)

        yield counter("fleethook_controller_reconciled", "Reconciliations of a subject.", lambda: self._counts()[0])
        yield counter(
            "fleethook_controller_touched", "Workloads written so that they are rendered.", lambda: self._counts()[1]
        )
        yield counter(
            "fleethook_controller_failed", "Workloads that did not match after their write.", lambda: self._counts()[2]
        )

    def _counts(self) -> tuple[int, int, int]:
        """Return the counts of the running controller, or of the last one."""
        controller = self._controller
        if controller is None:
            return self._last_counts
        return controller.reconciled, controller.workloads.client.touched, controller.workloads.failed

    def _make_controller(self, leadership: Leadership) -> "OverriderController":
        # Imported here because servers that do not lead do not need them.
        from fleethook.engines.overrider.controller.overrider_controller import OverriderController  # noqa: PLC0415

        context = self.context
        assert context.cluster is not None
        return OverriderController(
            leadership.connection,
            context.store,
            context.cluster.source,
            self.plans,
            registered=leadership.registered,
            worker=context.worker,
            openyurt_conflict=(lambda: "") if self.conflicts is None else self.conflicts.describe,
        )


def _make_conclude(store: Store, cluster: Cluster) -> Conclude:
    """Return the work before kube-apiserver stores an admitted overrider."""
    # Imported here because a server that reads manifests does not need them.
    from fleethook.engines.overrider.subject.match_condition_writer import ConditionClient, bound_subjects  # noqa: PLC0415

    announcer = Announcer(
        ConditionClient(cluster.connection),
        partial(bound_subjects, store),
        seen=partial(_wait_until_seen, cluster, MUTATING_CONFIGURATIONS.group_kind),
    )
    return partial(announce_overrider, announce=announcer.announce)


async def _wait_until_seen(cluster: Cluster, group_kind: GroupKind, resource_version: str) -> None:
    """Wait until the watch of a kind reaches a resourceVersion, at most as long as a working watch needs."""
    from fleethook.cluster.kubernetes.list_reading_and_decoding import as_number  # noqa: PLC0415 - as for `_make_conclude`

    source = cluster.source
    if source.missing([group_kind]) or source.informer(group_kind).state().failing:
        return  # The role may not grant the kind, and an announcement does not depend on it.
    await source.catch_up(group_kind, as_number(resource_version), seconds=CATCH_UP_SECONDS)


def _make_dry_runs(cluster: Cluster, *, limit: int) -> ServerDryRun:
    async def send(logical_cluster: str, path: str, workload: JSONObject) -> None:
        connection, scope = cluster.connection, cluster.source.scope(logical_cluster)
        if not connection.is_open:
            raise UnreachableError("the connection is not open yet")
        await connection.request("POST", scope + path, query={"dryRun": "All"}, body=workload)

    return ServerDryRun(send, limit=limit)


def lists_without_leader(settings: OverriderSettings) -> bool:
    """Return whether each replica keeps the selection, because no leader does.

    It does if an installation switches the controller off. A server without an address of its own, such as one on a
    developer's machine, writes nothing to the cluster.
    """
    is_installed = settings.service is not None or settings.webhook_url is not None
    has_no_controller = settings.controller is False and "overrider" in settings.engines
    return has_no_controller and is_installed and settings.follows_cluster and not settings.kcp
