"""The tasks of the leader for overriders: the controller, and the selection of the webhooks."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from fleethook.engines.overrider.controller.openyurt_conflicts import OpenYurtConflicts
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_subjects import runs_selection, write_selection
from fleethook.server.engine_server import Leadership, ServerContext
from fleethook.server.metrics import Gauges
from fleethook.work.garbage import pause_garbage_collector

if TYPE_CHECKING:
    from fleethook.engines.overrider.controller.controller import OverriderController


_NO_COUNTS: Final = (0, 0, 0)


class OverriderLeader:
    """Runs the tasks while this replica leads, and keeps the counts of its controller."""

    def __init__(self, context: ServerContext, plans: PlanCache, conflicts: OpenYurtConflicts | None) -> None:
        """Prepare; arguments as the attributes of `fleethook.engines.overrider.overrider_server.OverriderServer`."""
        self._context: Final = context
        self._settings: Final = context.settings.section(OverriderSettings)
        self._plans: Final = plans
        self._conflicts: Final = conflicts
        self._controller: OverriderController | None = None
        self._last_counts = _NO_COUNTS

    def queue_length(self) -> int:
        """Return the length of the controller's queue, 0 without a controller."""
        return 0 if self._controller is None else len(self._controller.queue)

    def _counts(self) -> tuple[int, int, int]:
        """Return the counts of the running controller, or of the last one."""
        controller = self._controller
        if controller is None:
            return self._last_counts
        return controller.reconciled, controller.workloads.touched, controller.workloads.failed

    def collectors(self) -> Iterator[Collector]:
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
            worker=context.worker,
            reading=pause_garbage_collector,
            openyurt_conflict=(lambda: "") if self._conflicts is None else self._conflicts.describe,
        )
