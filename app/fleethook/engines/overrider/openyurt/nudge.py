"""Makes OpenYurt's controller reconcile a subject again, by an annotation: a nudge.

OpenYurt 1.4 logs a refused write and does not retry it. If a subject was edited or created while fleethook was
unavailable, its workloads stay outdated until the subject changes. So the leader changes an annotation of the subject.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.engines.overrider.controller.outdated_workloads import OutdatedWorkloads
from fleethook.engines.overrider.controller.status import StatusReporter
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.openyurt.owner_controller import OwnerWaits, Patience, has_observed, nudged_lately
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NUDGED_ANNOTATION

_log: Final = logging.getLogger(__name__)


class Nudger:
    """Waits for the controllers of subjects, and nudges late ones."""

    def __init__(
        self,
        connection: Connection,
        source: KubernetesSource,
        waits: OwnerWaits,
        outdated: OutdatedWorkloads,
        reporter: StatusReporter,
        *,
        now: Callable[[], datetime],
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            source: The watch of the subjects.
            waits: The times until which the controllers of subjects may write.
            outdated: The outdated workloads without an override.
            reporter: Writes events.
            now: Returns the time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._waits: Final = waits
        self._outdated: Final = outdated
        self._reporter: Final = reporter
        self._now: Final = now

    async def wait_for_owner(self, at: SubjectState) -> Patience:
        """Nudge a subject's controller if it is late; return whether to wait for it."""
        binding, pools = at.binding, len(at.pools)
        if at.subject is None:
            return Patience(wait=False, observed=True)
        if at.can_nudge and self._waits.should_nudge(binding, pools=pools) and await self._may_help(at):
            await self._nudge(at, at.subject)
        patience = self._waits.patience(binding, pools=pools, observed=has_observed(at.subject))
        if not patience.wait and self._waits.waited(binding):
            _log.warning(
                "%s: its controller has not written the changed template within %.0f s; workloads are rendered now, "
                "and roll out once more when it does",
                at.name,
                self._waits.limit(pools),
            )
        return patience

    async def _may_help(self, at: SubjectState) -> bool:
        """Return whether the subject's controller has workloads to write."""
        if at.missing or self._waits.waited(at.binding):
            return True
        return await self._outdated.confirm(self._outdated.find(at.keys), lane=at.binding)

    def note(self, at: SubjectState, *, waits: bool) -> None:
        """Record the result of a reconciliation.

        Args:
            at: The subject.
            waits: Whether workloads with an override wait for the subject's controller.
        """
        behind = bool(self._outdated.find(at.keys))
        self._waits.note(at.binding, waiting=waits, behind=behind, missing=bool(at.missing))

    def is_late(self, at: SubjectState) -> bool:
        """Return whether the time of the subject's controller is over."""
        over = self._waits.trouble(at.binding, pools=len(at.pools))
        return over is not None and self._waits.now >= over

    def find_orphans(self, at: SubjectState) -> tuple[str, ...]:
        """Return the workloads without an owner, for messages.

        A workload whose owner was deleted counts only after some time. Usually the garbage collector deletes it.
        """
        return tuple(map(str, (*at.orphans, *(() if self._may_be_collected(at) else at.dangling))))

    def _may_be_collected(self, at: SubjectState) -> bool:
        return self._waits.now < self._waits.first_limit(at.binding, pools=len(at.pools))

    def next_time(self, at: SubjectState, *, waits: bool) -> float:
        """Return the time when the controller's time is over or a nudge is due; infinity if nothing waits for it.

        Args:
            at: The subject.
            waits: Whether workloads with an override wait for the subject's controller.
        """
        binding, pools = at.binding, len(at.pools)
        times = [self._waits.until(binding, pools=pools)] if waits else []
        if at.dangling and self._may_be_collected(at):
            times.append(self._waits.first_limit(binding, pools=pools))
        late = self._waits.trouble(binding, pools=pools)
        # If the controller is late already, only a due nudge needs another reconciliation.
        if late is not None and (late > self._waits.now or self._waits.should_nudge(binding, pools=pools)):
            times += [late] if at.can_nudge or late > self._waits.now else []
        return min(times, default=float("inf"))

    async def _nudge(self, at: SubjectState, subject: JSONObject) -> None:
        binding = at.binding
        if nudged_lately(subject, now=self._now(), seconds=self._waits.interval):
            self._waits.nudged(binding, well=False)
            return
        path = self._source.informer(binding.group_kind).resource.in_namespace(binding.namespace, binding.name)
        text = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        body: JSONObject = {"metadata": {"annotations": {NUDGED_ANNOTATION: text}}}
        try:
            await self._connection.request(
                "PATCH", self._source.scope(binding.cluster) + path, body=body, content_type=MERGE_PATCH
            )
        except (APIError, UnreachableError) as error:
            _log.warning("%s: %s; cannot set annotation %s: %s", at.name, at.lack, NUDGED_ANNOTATION, error)
            self._waits.nudged(binding, well=False)
            return
        self._waits.nudged(binding, well=True)
        self._outdated.note_nudge(at.keys)
        message = (
            f"{at.lack}. OpenYurt 1.4 does not retry a write that was refused, for example while fleethook was away: "
            f"fleethook has set annotation {NUDGED_ANNOTATION}, so that its controller reconciles it again"
        )
        _log.warning("%s: %s", at.name, message)
        await self._reporter.record_event(binding, subject, "Warning", "OwnerNudged", message)
