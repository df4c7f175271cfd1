"""Statuses and events of overriders: written where they changed, and only there."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from app.control.conditions import Finding, said
from app.control.events import Recorder, Reference
from app.kube.connection import MERGE_PATCH, Connection
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import API_VERSION, YURT_APP_OVERRIDER
from app.overrider.assess import Binding
from app.overrider.status import BOUND, CONFLICT, RENDERED, Result, status_of
from app.store.sources.kubernetes.resources import YURT_APP_OVERRIDERS
from app.store.sources.kubernetes.source import KubernetesSource

_log: Final = logging.getLogger(__name__)

COMPONENT: Final = "fleethook-overrider"
_MAX_NAMED: Final = 5
_NOT_FOUND: Final = 404


class Reporter:
    """Tells people how overriders stand."""

    def __init__(self, connection: Connection, source: KubernetesSource, *, now: Callable[[], datetime]) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            source: What follows the overriders.
            now: The time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._now: Final = now
        self._recorder: Final = Recorder(connection, component=COMPONENT, now=now)

    async def report(
        self, binding: Binding, overrider: JSONObject, findings: Sequence[Finding], results: Sequence[Result]
    ) -> bool:
        """Write an overrider's status if it changed, and an event for each condition that did.

        Returns:
            Whether the status is stored now.
        """
        former = as_object(overrider.get("status"))
        status = status_of(overrider, findings, results, now=self._now())
        if status == former:
            return True
        scope = self._source.scope(binding.cluster)
        path = scope + YURT_APP_OVERRIDERS.in_namespace(binding.namespace, overrider["metadata"]["name"])
        try:
            answer = await self._connection.request(
                "PATCH", f"{path}/status", body={"status": status}, content_type=MERGE_PATCH
            )
            # The next look must compare with this status, even if it is taken before the watch brings it.
            self._source.informer(YURT_APP_OVERRIDER).learn(YURT_APP_OVERRIDERS.decode(answer))
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            if isinstance(error, APIError) and error.code == _NOT_FOUND:
                return True
            _log.warning("the status of YurtAppOverrider %s was not written: %s", path, error)
            return False
        for finding in _worth_an_event(findings, former):
            level: Literal["Normal", "Warning"] = "Normal" if _is_well(finding) else "Warning"
            await self.tell(binding, overrider, level, finding.reason, finding.message)
        return True

    async def tell(
        self,
        binding: Binding,
        about: JSONObject,
        level: Literal["Normal", "Warning"],
        reason: str,
        message: str,
    ) -> None:
        """Write an event about an overrider or a subject."""
        scope = self._source.scope(binding.cluster)
        await self._recorder.record(_reference(about), level, reason, message, scope=scope)

    async def tell_of_reverts(self, binding: Binding, about: JSONObject, reverted: Sequence[Result]) -> None:
        """Write an event that names the workloads which are as their template again."""
        names = ", ".join(f"{result.workload} in {result.pool}" for result in reverted[:_MAX_NAMED])
        more = f" and {len(reverted) - _MAX_NAMED} more" if len(reverted) > _MAX_NAMED else ""
        await self.tell(binding, about, "Normal", "Reverted", f"went back to their template: {names}{more}")


def _worth_an_event(findings: Sequence[Finding], former: Mapping[str, JSON]) -> list[Finding]:
    changed = [finding for finding in findings if said(former.get("conditions"), finding.type) != finding[1:]]
    # An overrider that is not in effect is not rendered either; one event is enough for both.
    bound = [finding for finding in findings if finding.type == BOUND]
    return [
        finding for finding in changed if not (finding.type == RENDERED and bound and bound[0].reason == finding.reason)
    ]


def _is_well(finding: Finding) -> bool:
    """Return whether a condition asks nobody to do anything; an unknown one changes by itself."""
    return finding.type != CONFLICT and finding.status != "False"


def _reference(document: JSONObject) -> Reference:
    metadata = document["metadata"]
    return Reference(
        document.get("apiVersion") or API_VERSION,
        document["kind"],
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
    )
