"""Reading and writing the match condition that names the subjects with an overrider, and their announcements."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from app.kube.connection import Connection
from app.model.json import JSONObject
from app.registration.announcements import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    read_announcements,
    write_announcements,
)
from app.registration.match_conditions import bound_condition_of
from app.registration.server_side_apply import apply_object, get_object
from app.registration.webhooks import API_VERSION, CONFIGURATION_NAME, MUTATING, SELECTED, configuration_path

_FIELD_MANAGER: Final = "fleethook-selection"
_PATH: Final = configuration_path(MUTATING)


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's name


class _Written(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_written: Final = msgspec.json.Decoder(_Written).decode


class Registered(NamedTuple):
    """The webhooks for workloads, as they are registered."""

    resource_version: str
    conditions: dict[str, JSONObject | None]
    """The condition of each webhook, None where there is none."""
    announcements: tuple[Announcement, ...] = ()
    """Oldest first."""

    @property
    def expression(self) -> str | None:
        """What the conditions say, None if a webhook has none."""
        expressions = [condition["expression"] if condition else None for condition in self.conditions.values()]
        return expressions[0] if expressions and None not in expressions else None


class ConditionClient:
    """Writes by server-side apply of that one element of ``matchConditions``, and of the annotation.

    Its field manager is its own: Helm, GitOps tools and ``serve --register`` keep what they own, and nobody undoes
    another's part. Several replicas write; each write fails if the configuration has changed since it was read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    async def read(self) -> Registered | None:
        """Return what is registered, None if nothing is; raises APIError, UnreachableError."""
        present = await get_object(self._connection, _PATH)
        if present is None:
            return None
        metadata = present["metadata"]
        webhooks = {webhook["name"]: webhook for webhook in present.get("webhooks") or ()}
        conditions = {name: bound_condition_of(webhooks[name]) for name in SELECTED if name in webhooks}
        announced = read_announcements((metadata.get("annotations") or {}).get(ANNOUNCED_ANNOTATION))
        return Registered(metadata.get("resourceVersion") or "", conditions, announced) if conditions else None

    async def write(
        self, registered: Registered, condition: JSONObject | None, *, announcements: Sequence[Announcement] = ()
    ) -> str:
        """Set the condition of all webhooks for workloads, or take it back; return the new resourceVersion.

        Args:
            registered: What is registered.
            condition: The new condition. With None, everything that this field manager has applied is removed.
            announcements: All that are to be left, oldest first.

        Raises:
            APIError: The server refuses it; 409 if the configuration has changed.
            UnreachableError: There is no answer.
        """
        conditions = {} if condition is None else dict.fromkeys(registered.conditions, condition)
        return await self._apply(registered, conditions, announcements)

    async def write_announcements(self, registered: Registered, announcements: Sequence[Announcement]) -> str:
        """Set the announcements only; as `write`."""
        return await self._apply(registered, registered.conditions, announcements)

    async def _apply(
        self,
        registered: Registered,
        conditions: Mapping[str, JSONObject | None],
        announcements: Sequence[Announcement],
    ) -> str:
        metadata: JSONObject = {"name": CONFIGURATION_NAME, "resourceVersion": registered.resource_version}
        if announcements:
            metadata["annotations"] = {ANNOUNCED_ANNOTATION: write_announcements(announcements)}
        body: JSONObject = {
            "apiVersion": API_VERSION,
            "kind": MUTATING,
            "metadata": metadata,
            "webhooks": [
                {"name": name, "matchConditions": [condition]} for name, condition in conditions.items() if condition
            ],
        }
        written = await apply_object(self._connection, _PATH, body, manager=_FIELD_MANAGER)
        return _decode_written(written).metadata.resourceVersion
