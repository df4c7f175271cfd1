"""Read and write the match condition that lists the subjects with an overrider, and the announcements."""

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
from app.registration.webhooks import (
    API_VERSION,
    CONFIGURATION_NAME,
    MUTATING,
    SELECTED,
    configuration_path,
    selected_rules,
)

_FIELD_MANAGER: Final = "fleethook-selection"
_PATH: Final = configuration_path(MUTATING)


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the field of the API


class _Written(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_written: Final = msgspec.json.Decoder(_Written).decode


class Registered(NamedTuple):
    """The registered webhooks for workloads."""

    resource_version: str
    conditions: dict[str, JSONObject | None]
    """The match condition of each webhook, None if it has none, or if the webhook has other rules than `SELECTED`."""
    announcements: tuple[Announcement, ...] = ()
    """The announcements, oldest first."""

    @property
    def expression(self) -> str | None:
        """The expression of the conditions, None if a webhook has no condition."""
        expressions = [condition["expression"] if condition else None for condition in self.conditions.values()]
        return expressions[0] if expressions and None not in expressions else None


class ConditionClient:
    """Applies the rules, one element of ``matchConditions`` and the annotation, server-side.

    It has its own field manager: Helm, GitOps tools and ``serve --register`` keep the fields that they own. Several
    replicas write; a write fails if the configuration has changed since it was read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    async def read(self) -> Registered | None:
        """Return the registered webhooks, None if there are none; raises APIError, UnreachableError."""
        present = await get_object(self._connection, _PATH)
        if present is None:
            return None
        metadata = present["metadata"]
        webhooks = {webhook["name"]: webhook for webhook in present.get("webhooks") or ()}
        conditions = {
            name: bound_condition_of(webhooks[name]) if webhooks[name].get("rules") == selected_rules(name) else None
            for name in SELECTED
            if name in webhooks
        }
        announced = read_announcements((metadata.get("annotations") or {}).get(ANNOUNCED_ANNOTATION))
        return Registered(metadata.get("resourceVersion") or "", conditions, announced) if conditions else None

    async def write(
        self, registered: Registered, condition: JSONObject, *, announcements: Sequence[Announcement] = ()
    ) -> str:
        """Set rules and condition of all webhooks for workloads; return the new resourceVersion.

        Args:
            registered: The registered webhooks.
            condition: The new condition.
            announcements: The announcements to keep, oldest first.

        Raises:
            APIError: The apiserver refuses the write; 409 if the configuration has changed.
            UnreachableError: The apiserver does not respond.
        """
        return await self._apply(registered, dict.fromkeys(registered.conditions, condition), announcements)

    async def write_announcements(self, registered: Registered, announcements: Sequence[Announcement]) -> str:
        """Set only the announcements; result and errors as for `write`."""
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
                {"name": name, "rules": selected_rules(name), "matchConditions": [condition]}
                for name, condition in conditions.items()
                if condition
            ],
        }
        written = await apply_object(self._connection, _PATH, body, manager=_FIELD_MANAGER)
        return _decode_written(written).metadata.resourceVersion
