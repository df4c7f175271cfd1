"""The engine of overriders in a running server: its plans, checks and tasks, and those of the leader."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.followed_objects import Cluster, Followed
from fleethook.cluster.kubernetes.watched_resources import MUTATING_CONFIGURATIONS, RESOURCES, SURROUNDINGS
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import Store
from fleethook.engines.overrider.admission.read_your_writes import CATCH_UP_SECONDS
from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun
from fleethook.engines.overrider.controller.openyurt_conflicts import OpenYurtConflicts
from fleethook.engines.overrider.overrider_routes import overrider_routes
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rules.manifest_findings import ManifestReport
from fleethook.engines.overrider.subject.bound_subjects import (
    announce_overrider,
    bound_subjects,
    keep_selection,
    lists_without_leader,
    runs_selection,
    write_selection,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.server.engine_server import BackgroundTask, EngineServer, Leadership, ServerContext
from fleethook.server.health import Check
from fleethook.server.metrics import Gauges
from fleethook.server.reviews.admission_endpoint import Conclude, ReviewRoute
from fleethook.settings import Settings

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
        self.selects = runs_selection(settings) or self._keeps_selection

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
            for text in self.conflicts.findings():
                yield Check("openyurt", ok=True, detail=text)
        if detail := self.manifest_report.detail():
            yield Check("overriders", ok=True, detail=detail)

    async def check_manifests(self, documents: Sequence[Document]) -> None:
        """Check the overriders of the manifests, and log new findings."""
        await self.manifest_report.refresh(documents)

    def tasks(self) -> Iterator[BackgroundTask]:
        """Yield the task that keeps the selection if no leader does."""
        if self._keeps_selection:
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
                if runs_selection(settings):
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
        return controller.reconciled, controller.workloads.touched, controller.workloads.failed

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
    from fleethook.engines.overrider.subject.match_condition_writer import Announcer, ConditionClient  # noqa: PLC0415

    announcer = Announcer(
        ConditionClient(cluster.connection),
        partial(bound_subjects, store),
        seen=partial(_wait_until_seen, cluster, MUTATING_CONFIGURATIONS.group_kind),
    )
    return partial(announce_overrider, announce=announcer.announce)


async def _wait_until_seen(cluster: Cluster, group_kind: GroupKind, resource_version: str) -> None:
    """Wait until the watch of a kind reaches a resourceVersion, at most as long as a working watch needs."""
    from fleethook.cluster.kubernetes.list_watch import as_number  # noqa: PLC0415 - as for `_make_conclude`

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
