"""Statuses and events of overriders: written where they changed, and only there."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from app.control.conditions import Condition
from app.control.events import Recorder, Reference
from app.control.slices import Slices
from app.kube.connection import MERGE_PATCH, Connection
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import API_VERSION, YURT_APP_OVERRIDER
from app.overrider.binding import Binding
from app.overrider.gaps import Gaps, describe_orphans
from app.overrider.status import BOUND, CONFLICT, RENDERED, Result, status_in_slices
from app.store.sources.kubernetes.resources import YURT_APP_OVERRIDERS
from app.store.sources.kubernetes.source import KubernetesSource

_log: Final = logging.getLogger(__name__)

COMPONENT: Final = "fleethook-overrider"
_MAX_NAMED: Final = 5
_NOT_FOUND: Final = 404

# Statuses that the apiserver does not store as they are; where it does, comparing with the stored one is enough.
MAX_REMEMBERED: Final = 4096


class _Said(NamedTuple):
    uid: JSON
    generation: int
    findings: tuple[Condition, ...]
    results: tuple[Result, ...]
    stored: Mapping[str, JSON]
    """The status that the apiserver made of it."""


class Reporter:
    """Tells people how overriders stand."""

    def __init__(
        self, connection: Connection, source: KubernetesSource, *, slices: Slices, now: Callable[[], datetime]
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            source: What follows the overriders.
            slices: Its turns are taken to make long statuses.
            now: The time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._slices: Final = slices
        self._now: Final = now
        self._recorder: Final = Recorder(connection, component=COMPONENT, now=now)
        # What was said last, and what the apiserver stored of it: the definition of OpenYurt drops a part.
        self._said: Final[OrderedDict[str, _Said]] = OrderedDict()

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
            overrider: Whose status it is.
            findings: Its conditions.
            results: How the workloads stand.
            gaps: The workloads that there should be besides those.

        Returns:
            Whether the status is stored now.
        """
        former = as_object(overrider.get("status"))
        status = await self._slices.run(status_in_slices(overrider, findings, results, gaps, now=self._now()))
        said = _Said(
            overrider["metadata"].get("uid"), status["observedGeneration"], tuple(findings), tuple(results), former
        )
        path = YURT_APP_OVERRIDERS.in_namespace(binding.namespace, overrider["metadata"]["name"])
        path = self._source.scope(binding.cluster) + path
        before = self._said.get(path)
        if status == former or before == said:
            return True
        try:
            stored = await self._write(path, status)
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            _log.warning("the status of YurtAppOverrider %s was not written: %s", path, error)
            return False
        if stored is None:
            return True
        if stored != status:
            self._remember(path, said._replace(stored=stored))
        known = before.findings if before is not None and before.uid == said.uid else _said_in(former)
        for finding in _worth_an_event(findings, known):
            level: Literal["Normal", "Warning"] = "Normal" if _is_well(finding) else "Warning"
            await self.tell(binding, overrider, level, finding.reason, finding.message)
        return True

    async def _write(self, path: str, status: JSONObject) -> Mapping[str, JSON] | None:
        """Write a status and return what is stored of it; None if the overrider is gone."""
        try:
            answer = await self._connection.request(
                "PATCH", f"{path}/status", body={"status": status}, content_type=MERGE_PATCH
            )
        except APIError as error:
            if error.code != _NOT_FOUND:
                raise
            # The definition of OpenYurt has no status at all; then events have to do.
            return None if f'"{path.rpartition("/")[2]}" not found' in error.message else {}
        document = YURT_APP_OVERRIDERS.decode(answer)
        # The next look must compare with this status, even if it is taken before the watch brings it.
        self._source.informer(YURT_APP_OVERRIDER).learn(document)
        return as_object(document.get("status"))

    def _remember(self, path: str, said: _Said) -> None:
        self._said.pop(path, None)
        self._said[path] = said
        if len(self._said) > MAX_REMEMBERED:
            self._said.popitem(last=False)

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

    async def tell_of_orphans(self, binding: Binding, about: JSONObject, orphans: Sequence[str]) -> None:
        """Write an event that names the workloads which keep the overrides of an overrider that is gone."""
        await self.tell(binding, about, "Warning", "OrphanedWorkloads", describe_orphans(orphans))


def _said_in(status: Mapping[str, JSON]) -> Sequence[tuple[JSON, ...]]:
    stored = status.get("conditions")
    conditions = [as_object(one) for one in stored] if isinstance(stored, list) else []
    return [tuple(one.get(name) for name in Condition._fields) for one in conditions]


def _worth_an_event(findings: Sequence[Condition], known: Sequence[tuple[JSON, ...]]) -> list[Condition]:
    # An overrider that is not in effect is not rendered either; one event is enough for both.
    reasons = [finding.reason for finding in findings if finding.type == BOUND]
    changed = [finding for finding in findings if finding not in known]
    return [finding for finding in changed if not (finding.type == RENDERED and finding.reason in reasons)]


def _is_well(finding: Condition) -> bool:
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
