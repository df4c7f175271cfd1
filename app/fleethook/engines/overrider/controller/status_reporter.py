"""Writes the statuses of overriders, and events for changed conditions."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.conditions import Condition
from fleethook.cluster.connection import MERGE_PATCH, Connection
from fleethook.cluster.events import Recorder, Reference
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.kubernetes.resources import YURT_APP_OVERRIDERS
from fleethook.engines.overrider.controller.status import BOUND, CONFLICT, RENDERED, Result, status_in_slices
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.subject.unreached_workloads import Gaps, describe_orphans
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import API_VERSION, YURT_APP_OVERRIDER
from fleethook.work.slice_runner import Slices

_log: Final = logging.getLogger(__name__)

COMPONENT: Final = "fleethook-overrider"
_MAX_NAMED_REVERTED: Final = 5
_NOT_FOUND: Final = 404

# Remembered are only statuses that the apiserver changes when it stores them. Others are compared with the stored one.
MAX_REMEMBERED: Final = 4096


class _Reported(NamedTuple):
    uid: JSON
    generation: int
    findings: tuple[Condition, ...]
    results: tuple[Result, ...]
    stored: Mapping[str, JSON]
    """The status that the apiserver stored."""


class StatusReporter:
    """Writes statuses and events to the apiserver."""

    def __init__(
        self, connection: Connection, source: KubernetesSource, *, slices: Slices, now: Callable[[], datetime]
    ) -> None:
        """Create a reporter.

        Args:
            connection: The connection to the apiserver.
            source: The informers of overriders.
            slices: Shares the event loop while a long status is built.
            now: Returns the time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._slices: Final = slices
        self._now: Final = now
        self._recorder: Final = Recorder(connection, component=COMPONENT, now=now)
        # The last report and its stored form: OpenYurt's CustomResourceDefinition drops a part of the status.
        self._reported: Final[OrderedDict[str, _Reported]] = OrderedDict()

    async def report(
        self,
        binding: Binding,
        overrider: JSONObject,
        findings: Sequence[Condition],
        results: Sequence[Result],
        gaps: Gaps,
    ) -> bool:
        """Write an overrider's status if it changed, and an event for each condition that did.

        Args:
            binding: Its subject.
            overrider: The overrider.
            findings: Its conditions.
            results: The states of its workloads.
            gaps: The missing workloads.

        Returns:
            Whether the stored status is up to date.
        """
        former = as_object(overrider.get("status"))
        status = await self._slices.run(status_in_slices(overrider, findings, results, gaps, now=self._now()))
        report = _Reported(
            overrider["metadata"].get("uid"), status["observedGeneration"], tuple(findings), tuple(results), former
        )
        path = YURT_APP_OVERRIDERS.in_namespace(binding.namespace, overrider["metadata"]["name"])
        path = self._source.scope(binding.cluster) + path
        before = self._reported.get(path)
        if status == former or before == report:
            return True
        try:
            stored = await self._write(path, status)
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            _log.warning("the status of YurtAppOverrider %s was not written: %s", path, error)
            return False
        if stored is None:
            return True
        if stored != status:
            self._remember(path, report._replace(stored=stored))
        known = before.findings if before is not None and before.uid == report.uid else _read_conditions(former)
        for finding in _select_for_events(findings, known):
            level: Literal["Normal", "Warning"] = "Normal" if _is_well(finding) else "Warning"
            await self.record_event(binding, overrider, level, finding.reason, finding.message)
        return True

    async def _write(self, path: str, status: JSONObject) -> Mapping[str, JSON] | None:
        """Write a status and return its stored form, None if the overrider was deleted."""
        try:
            answer = await self._connection.request(
                "PATCH", f"{path}/status", body={"status": status}, content_type=MERGE_PATCH
            )
        except APIError as error:
            if error.code != _NOT_FOUND:
                raise
            # OpenYurt's CustomResourceDefinition has no status subresource. Then only events report.
            return None if f'"{path.rpartition("/")[2]}" not found' in error.message else {}
        document = YURT_APP_OVERRIDERS.decode(answer)
        # The next reconcile must compare with this status, even if it starts before the watch event arrives.
        self._source.informer(YURT_APP_OVERRIDER).learn(document)
        return as_object(document.get("status"))

    def _remember(self, path: str, report: _Reported) -> None:
        self._reported.pop(path, None)
        self._reported[path] = report
        if len(self._reported) > MAX_REMEMBERED:
            self._reported.popitem(last=False)

    async def record_event(
        self,
        binding: Binding,
        about: JSONObject,
        level: Literal["Normal", "Warning"],
        reason: str,
        message: str,
    ) -> None:
        """Write an event about an overrider or a subject."""
        scope = self._source.scope(binding.cluster)
        await self._recorder.record(_make_reference(about), level, reason, message, scope=scope)

    async def record_reverts(self, binding: Binding, about: JSONObject, reverted: Sequence[Result]) -> None:
        """Write an event that names the workloads that match their template again."""
        names = ", ".join(f"{result.workload} in {result.pool}" for result in reverted[:_MAX_NAMED_REVERTED])
        more = f" and {len(reverted) - _MAX_NAMED_REVERTED} more" if len(reverted) > _MAX_NAMED_REVERTED else ""
        await self.record_event(binding, about, "Normal", "Reverted", f"reverted to their template: {names}{more}")

    async def record_orphans(self, binding: Binding, about: JSONObject, orphans: Sequence[str]) -> None:
        """Write an event that names the workloads that keep the overrides of a deleted overrider."""
        await self.record_event(binding, about, "Warning", "OrphanedWorkloads", describe_orphans(orphans))


def _read_conditions(status: Mapping[str, JSON]) -> Sequence[tuple[JSON, ...]]:
    stored = status.get("conditions")
    conditions = [as_object(one) for one in stored] if isinstance(stored, list) else []
    return [tuple(one.get(name) for name in Condition._fields) for one in conditions]


def _select_for_events(findings: Sequence[Condition], known: Sequence[tuple[JSON, ...]]) -> list[Condition]:
    # An overrider that is not in effect is not rendered either. One event is enough for both conditions.
    reasons = [finding.reason for finding in findings if finding.type == BOUND]
    changed = [finding for finding in findings if finding not in known]
    return [finding for finding in changed if not (finding.type == RENDERED and finding.reason in reasons)]


def _is_well(finding: Condition) -> bool:
    """Return whether a condition needs no action; an unknown one changes without any."""
    return finding.type != CONFLICT and finding.status != "False"


def _make_reference(document: JSONObject) -> Reference:
    metadata = document["metadata"]
    return Reference(
        document.get("apiVersion") or API_VERSION,
        document["kind"],
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
    )
