"""The tasks of the leader for overriders: the controller, and the selection of the webhooks."""

import asyncio
from typing import TYPE_CHECKING, Final

from fleethook.cluster.leader_election import ControllerCounts, ControllerMetrics
from fleethook.engines.overrider.controller.openyurt_conflicts import OpenYurtConflicts
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_subjects import runs_selection, write_selection
from fleethook.server.engine_server import Leadership, ServerContext
from fleethook.work.garbage import pause_garbage_collector

if TYPE_CHECKING:
    from fleethook.engines.overrider.controller.controller import OverriderController


class OverriderLeader:
    """Runs the tasks while this replica leads, and keeps the counts of its controller.

    Attributes:
        metrics: The counts, for Prometheus.
    """

    def __init__(self, context: ServerContext, plans: PlanCache, conflicts: OpenYurtConflicts | None) -> None:
        """Prepare; arguments as the attributes of `fleethook.engines.overrider.overrider_server.OverriderServer`."""
        self._context: Final = context
        self._settings: Final = context.settings.section(OverriderSettings)
        self._plans: Final = plans
        self._conflicts: Final = conflicts
        self._controller: OverriderController | None = None
        self._last_counts = ControllerCounts()
        self.metrics: Final = ControllerMetrics(self._counts)

    def queue_length(self) -> int:
        """Return the length of the controller's queue, 0 without a controller."""
        return 0 if self._controller is None else len(self._controller.queue)

    def _counts(self) -> ControllerCounts:
        """Return the counts of the running controller, or of the last one."""
        controller = self._controller
        if controller is None:
            return self._last_counts
        workloads = controller.workloads
        return ControllerCounts(reconciled=controller.reconciled, touched=workloads.touched, failed=workloads.failed)

    async def run(self, leadership: Leadership) -> None:
        """Run each task that the settings ask for until cancelled, then drop the controller with its queue."""
        settings = self._settings
        if not settings.controls:
            return
        self._controller = self._make_controller(leadership)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._controller.run(), name="controller")
                if runs_selection(settings):
                    tasks.create_task(write_selection(self._context, leadership.connection), name="selection")
        finally:
            self._last_counts, self._controller = self._counts(), None

    def _make_controller(self, leadership: Leadership) -> "OverriderController":
        # Imported here because servers that do not lead do not need them.
        from fleethook.engines.overrider.controller.controller import OverriderController  # noqa: PLC0415

        context = self._context
        assert context.cluster is not None
        return OverriderController(
            leadership.connection,
            context.store,
            context.cluster.source,
            self._plans,
            registered=leadership.registered,
            turns=context.turns,
            reading=pause_garbage_collector,
            openyurt_conflict=(lambda: "") if self._conflicts is None else self._conflicts.describe,
        )
