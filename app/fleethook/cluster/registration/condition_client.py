"""Read and write the match conditions that list the subjects with an overrider, and the announcements."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.match_conditions import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    Selection,
    find_conditions,
    read_announcements,
    read_conditions,
    write_announcements,
)
from fleethook.cluster.registration.server_side_apply import get_object, owns_fields, patch_object, release_fields
from fleethook.cluster.registration.webhooks import MUTATING, configuration_path, list_selected, select_workloads
from fleethook.model.json import JSONObject
from fleethook.patch import diff

_FIELD_MANAGER: Final = "fleethook-selection"
_PATH: Final = configuration_path(MUTATING)


class Registered(NamedTuple):
    """The registered webhooks for workloads."""

    resource_version: str
    names: frozenset[str]
    """The names of those webhooks of `list_selected` that are registered."""
    selecting: dict[str, JSONObject]
    """``rules`` and ``matchConditions`` of each of them that has some, as `select_workloads` returns them."""
    announcements: tuple[Announcement, ...] = ()
    """The announcements, oldest first."""
    document: JSONObject = {}  # noqa: RUF012 - never modified
    """The configuration as read."""

    @property
    def listed(self) -> Selection | None:
        """The selection, None if no leader or replica has written conditions."""
        found = [one["expression"] for each in self.selecting.values() for one in each["matchConditions"]]
        return read_conditions(found) if found else None

    def selects(self, selection: Selection) -> bool:
        """Return whether rules and conditions are those of a selection."""
        return self.selecting == select_workloads(self.names, selection)

    @property
    def is_owned(self) -> bool:
        """Whether this program owns fields, which it should not: see `release_fields`."""
        return owns_fields(self.document, _FIELD_MANAGER)


class ConditionClient:
    """Writes the rules, some elements of ``matchConditions`` and the annotation.

    Helm, GitOps tools and ``serve --register`` keep the other fields, and this program owns none. Several replicas
    write; a write fails if the configuration has changed since it was read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    async def read(self) -> Registered | None:
        """Return the registered webhooks, None if there are none; raises APIError, UnreachableError."""
        present = await get_object(self._connection, _PATH)
        if present is None:
            return None
        metadata = present["metadata"]
        selected = list_selected()
        webhooks = {one["name"]: one for one in present.get("webhooks") or () if one["name"] in selected}
        found = {
            name: {"rules": one.get("rules") or [], "matchConditions": find_conditions(one)}
            for name, one in webhooks.items()
        }
        announced = read_announcements((metadata.get("annotations") or {}).get(ANNOUNCED_ANNOTATION))
        selecting = {name: one for name, one in found.items() if any(one.values())}
        version = metadata.get("resourceVersion") or ""
        return Registered(version, frozenset(webhooks), selecting, announced, present) if webhooks else None

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
        wanted = _change(registered.document, select_workloads(registered.names, selection), announcements)
        stored = registered.document
        if operations := diff(stored, wanted):
            version = registered.resource_version
            stored = await patch_object(self._connection, _PATH, version, operations, manager=_FIELD_MANAGER)
        stored = await release_fields(self._connection, _PATH, stored, manager=_FIELD_MANAGER)
        return str(stored["metadata"].get("resourceVersion") or "")


def _change(
    document: JSONObject, selecting: Mapping[str, JSONObject], announcements: Sequence[Announcement]
) -> JSONObject:
    """Return a configuration with these rules and conditions of workloads, and these announcements."""
    webhooks = []
    for webhook in document["webhooks"]:
        changed = webhook
        if members := selecting.get(webhook["name"]):
            ours = find_conditions(webhook)
            kept = [one for one in webhook.get("matchConditions") or () if one not in ours]
            changed = {**webhook, "rules": members["rules"], "matchConditions": [*kept, *members["matchConditions"]]}
        webhooks.append(changed)
    metadata = document["metadata"]
    before = metadata.get("annotations") or {}
    annotations = {name: text for name, text in before.items() if name != ANNOUNCED_ANNOTATION}
    if announcements:
        annotations[ANNOUNCED_ANNOTATION] = write_announcements(announcements)
    if annotations != before:
        metadata = {**metadata, "annotations": annotations}
    return {**document, "metadata": metadata, "webhooks": webhooks}
