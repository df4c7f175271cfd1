"""Seeing what was written just before: rendering with the overrider as it is, not as it was a moment ago.

A watch is some milliseconds behind the server, and a workload may be created in exactly those. So a workload that is
being created is rendered with its subject and overriders read anew (once in the life of each pool's workload). Later
reviews use the store, unless they are told that it is behind: whoever touches a workload because its overrider changed
writes into the trigger annotation which version he saw, and a replica that has not seen it yet waits for its watch
and, failing that, reads.
"""

import asyncio
import logging
import re
from collections.abc import Coroutine
from typing import Any, Final, Protocol

import msgspec

from app.kube.errors import APIError, UnreachableError
from app.model.admission import AdmissionRequest
from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object
from app.model.kcp import cluster_of
from app.model.openyurt import TRIGGER_ANNOTATION, YURT_APP_OVERRIDER
from app.overrider.binding import subject_of
from app.overrider.owner import SUBJECT_KINDS, find_owner
from app.store import StoreView

_log: Final = logging.getLogger(__name__)

_SEEN: Final = re.compile(r"\boverrider@(\d{1,20})\b")
# A watch that works is behind by milliseconds; one that is not there within this is better not waited for.
CATCH_UP_SECONDS: Final = 1.0


class StaleError(Exception):
    """The store is behind for certain, and what it lacks cannot be read; the review has to be asked again."""


class LiveSource(Protocol):
    """A source that can be waited for and read past."""

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        """Return whether the store may lack a change of that kind up to ``resource_version``."""

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        """Wait until everything up to ``resource_version`` is in the store; return whether it is."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Bring one object up to date; raises APIError, UnreachableError."""

    async def read_namespace(self, group_kind: GroupKind, *, cluster: str, namespace: str) -> None:
        """Bring the objects of a kind in a namespace up to date; raises APIError, UnreachableError."""


def trigger(time: str, *, overrider: str) -> str:
    """Return the text of the trigger annotation.

    Args:
        time: When, RFC 3339: a changed text is what makes a write of it.
        overrider: The resourceVersion of the overrider that was seen, or of its deletion.
    """
    return f"{time} overrider@{overrider}"


async def freshen_workload(request: AdmissionRequest, *, store: StoreView, live: LiveSource) -> None:
    """Bring the store up to what the review of a workload needs.

    Raises:
        StaleError: It is behind, and stays so.
    """
    try:
        workload = request.desired_object
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # The handler says what is wrong with it.
    metadata = as_object(as_object(workload).get("metadata"))
    owner = find_owner(metadata)
    if owner is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return
    cluster = cluster_of(workload)
    namespace = request.namespace or metadata.get("namespace") or ""
    creating = request.operation == "CREATE"
    reads = []
    if creating or store.get(cluster, owner.group_kind, namespace, owner.name) is None:
        # Its owner's controller creates a workload as soon as it sees the owner, which may be before we do.
        reads.append(live.read_one(owner.group_kind, cluster=cluster, namespace=namespace, name=owner.name))
    seen = _seen(metadata)
    behind = live.behind(YURT_APP_OVERRIDER, seen) and not await live.catch_up(
        YURT_APP_OVERRIDER, seen, seconds=CATCH_UP_SECONDS
    )
    if creating or behind:
        reads.append(live.read_namespace(YURT_APP_OVERRIDER, cluster=cluster, namespace=namespace))
    if reads:
        try:
            await asyncio.gather(*reads)
        except (APIError, UnreachableError) as error:
            if behind:
                raise StaleError(f"overriders changed and cannot be read just now: {error}") from error
            # The store is not known to be behind: better its answer than none.
            _log.warning("live read failed, the store is used: %s", error)


async def freshen_overrider(request: AdmissionRequest, *, live: LiveSource) -> None:
    """Bring the store up to what the validation of an overrider needs: its subject, and its rivals for it."""
    try:
        document = request.object
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    reads = [
        live.read_namespace(YURT_APP_OVERRIDER, cluster=cluster_of(document), namespace=request.namespace),
        *_subject_reads(document, request.namespace, live),
    ]
    try:
        await asyncio.gather(*reads)
    except (APIError, UnreachableError) as error:
        _log.warning("live read failed, the store is used: %s", error)


def _subject_reads(document: JSONObject, namespace: str, live: LiveSource) -> list[Coroutine[Any, Any, None]]:
    subject = subject_of(document)
    if subject is None:
        return []
    kind, name = subject
    group_kind = GroupKind(YURT_APP_OVERRIDER.group, kind)
    if group_kind not in SUBJECT_KINDS:
        return []
    return [live.read_one(group_kind, cluster=cluster_of(document), namespace=namespace, name=name)]


def _seen(metadata: object) -> int:
    """Return the version of the overrider that whoever touched the workload saw, 0 if nobody says."""
    text = as_object(as_object(metadata).get("annotations")).get(TRIGGER_ANNOTATION)
    found = _SEEN.search(text) if isinstance(text, str) else None
    return int(found[1]) if found else 0
