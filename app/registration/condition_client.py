"""Read and write the match conditions that list the subjects with an overrider, and the announcements."""

from collections.abc import Sequence
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
from app.registration.match_conditions import Selection, find_conditions, read_conditions
from app.registration.server_side_apply import apply_object, get_object
from app.registration.webhooks import (
    API_VERSION,
    CONFIGURATION_NAME,
    MUTATING,
    SELECTED,
    configuration_path,
    select_workloads,
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
    names: frozenset[str]
    """The names of those webhooks of `SELECTED` that are registered."""
    selecting: dict[str, JSONObject]
    """``rules`` and ``matchConditions`` of each of them that has some, as `select_workloads` returns them."""
    announcements: tuple[Announcement, ...] = ()
    """The announcements, oldest first."""

    @property
    def listed(self) -> Selection | None:
        """The selection, None if no leader or replica has written conditions."""
        found = [one["expression"] for each in self.selecting.values() for one in each["matchConditions"]]
        return read_conditions(found) if found else None

    def selects(self, selection: Selection) -> bool:
        """Return whether rules and conditions are those of a selection."""
        return self.selecting == select_workloads(self.names, selection)


class ConditionClient:
    """Applies the rules, some elements of ``matchConditions`` and the annotation, server-side.

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
        webhooks = {one["name"]: one for one in present.get("webhooks") or () if one["name"] in SELECTED}
        found = {
            name: {"rules": one.get("rules") or [], "matchConditions": find_conditions(one)}
            for name, one in webhooks.items()
        }
        announced = read_announcements((metadata.get("annotations") or {}).get(ANNOUNCED_ANNOTATION))
        selecting = {name: one for name, one in found.items() if any(one.values())}
        version = metadata.get("resourceVersion") or ""
        return Registered(version, frozenset(webhooks), selecting, announced) if webhooks else None

    async def write(
        self, registered: Registered, selection: Selection, *, announcements: Sequence[Announcement] = ()
    ) -> str:
        """Set rules and conditions of all webhooks for workloads; return the new resourceVersion.

        Args:
            registered: The registered webhooks.
            selection: The subjects with an overrider.
            announcements: The announcements to keep, oldest first.

        Raises:
            APIError: The apiserver refuses the write; 409 if the configuration has changed.
            UnreachableError: The apiserver does not respond.
        """
        metadata: JSONObject = {"name": CONFIGURATION_NAME, "resourceVersion": registered.resource_version}
        if announcements:
            metadata["annotations"] = {ANNOUNCED_ANNOTATION: write_announcements(announcements)}
        selecting = select_workloads(registered.names, selection)
        body: JSONObject = {
            "apiVersion": API_VERSION,
            "kind": MUTATING,
            "metadata": metadata,
            "webhooks": [{"name": name, **members} for name, members in selecting.items()],
        }
        written = await apply_object(self._connection, _PATH, body, manager=_FIELD_MANAGER)
        return _decode_written(written).metadata.resourceVersion
