"""The webhook configuration of an apiserver in memory, with a writer and an announcer of conditions."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from fleethook.cluster.registration.webhook_configurations import (
    ServiceReference,
    find_conditions,
    webhook_configurations,
)
from fleethook.engines.overrider.subject.announcements import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    Announcer,
    read_announcements,
)
from fleethook.engines.overrider.subject.match_condition_texts import (
    SelectedSubjects,
    SubjectName,
    list_selected,
    read_conditions,
    select_workloads,
)
from fleethook.engines.overrider.subject.match_condition_writer import ConditionClient, ConditionWriter
from fleethook.patch import apply
from tests.apiserver_rules import conflict, not_found, parse_path

DEMO = SubjectName("default", "YurtAppSet", "demo")
OTHER = SubjectName("default", "YurtAppDaemon", "agent")
NEW = Announcement(DEMO, "uid-of-new")
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fleethook"


def configuration() -> dict[str, Any]:
    mutating, _ = webhook_configurations(ServiceReference("fleet", "fleethook"))
    mutating["metadata"]["managedFields"] = [{"manager": "installer", "operation": "Apply"}]
    return mutating


class Server:
    """The configuration, with the managers of its fields; ``meanwhile`` runs between a read and the next write."""

    def __init__(self, present: dict[str, Any] | None) -> None:
        self.present = present
        self.written: list[Any] = []
        self.released = 0
        self.reads = 0
        self.failures: list[Exception] = []
        self.meanwhile: list[Callable[[], Any]] = []
        self._version = 1

    async def json(self, _method: str, path: str) -> Any:
        assert path == CONFIGURATION
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        if self.present is None:
            raise not_found(parse_path(path))
        present = copy.deepcopy(self.present)
        present.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return present

    def add(self, *subjects: SubjectName) -> None:
        """Set the conditions as another replica does."""
        self.select(SelectedSubjects(frozenset(subjects)))

    def select(self, selection: SelectedSubjects) -> None:
        """Set rules and conditions."""
        assert self.present is not None
        self._version += 1
        self._set(select_workloads(list_selected(), selection))

    def _set(self, selecting: dict[str, Any]) -> None:
        assert self.present is not None
        for webhook in self.present["webhooks"]:
            if webhook["name"] in list_selected():
                ours, members = find_conditions(webhook), selecting.get(webhook["name"], {})
                kept = [one for one in webhook["matchConditions"] if one not in ours]
                webhook["matchConditions"] = [*kept, *members.get("matchConditions", [])]
                webhook.pop("rules", None)
                webhook.update({"rules": members["rules"]} if members else {})

    def selection(self) -> SelectedSubjects:
        assert self.present is not None
        conditions = [find_conditions(one) for one in self.present["webhooks"] if one["name"] in list_selected()]
        return read_conditions([one["expression"] for each in conditions for one in each])

    def listed(self) -> frozenset[SubjectName]:
        return self.selection().subjects

    async def request(self, method: str, path: str, *, query: Any, body: Any, content_type: str) -> bytes:
        assert (method, content_type) == ("PATCH", "application/json-patch+json")
        assert (path, query) == (CONFIGURATION, {"fieldManager": "fleethook-selection"})
        if self.present is None:
            raise not_found(parse_path(path))
        version, *operations = body
        if version["value"] != str(self._version):
            raise conflict(parse_path(path))
        self._version += 1
        self.present = apply(self.present, operations)
        fields = {one["path"] for one in operations}
        if fields == {"/metadata/managedFields"}:
            self.released += 1
        else:
            self.written.append(operations)
            self.present["metadata"]["managedFields"].append({"manager": "fleethook-selection", "operation": "Update"})
        stored = copy.deepcopy(self.present)
        stored["metadata"]["resourceVersion"] = str(self._version)
        return msgspec.json.encode(stored)

    def announced(self) -> tuple[Announcement, ...]:
        assert self.present is not None
        return read_announcements(self.present["metadata"].get("annotations", {}).get(ANNOUNCED_ANNOTATION))


def writer(server: Server, subjects: Callable[[], Any], **rest: Any) -> ConditionWriter:
    """Return the writer of a leader; ``subjects`` returns the subjects with an overrider."""

    return ConditionWriter(ConditionClient(server), lambda: frozenset(subjects()), pause_seconds=0, **rest)  # type: ignore[arg-type]


def announcer(server: Server, *bound: SubjectName, **rest: Any) -> Announcer:
    return Announcer(ConditionClient(server), lambda: frozenset(bound), **rest)  # type: ignore[arg-type]
