"""The webhook configuration of an apiserver in memory, with a writer and an announcer of conditions."""

import copy
from collections.abc import Callable
from typing import Any

from app.kube.errors import APIError
from app.registration.announcements import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    read_announcements,
)
from app.registration.announcer import Announcer
from app.registration.condition_client import ConditionClient
from app.registration.condition_writer import ConditionWriter
from app.registration.match_conditions import SubjectName, bound_condition, bound_condition_of, listed_subjects
from app.registration.webhooks import SELECTED, ServiceReference, selected_rules, webhook_configurations

DEMO = SubjectName("default", "YurtAppSet", "demo")
OTHER = SubjectName("default", "YurtAppDaemon", "agent")
NEW = Announcement(DEMO, "uid-of-new")
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fleethook"


def configuration() -> dict[str, Any]:
    mutating, _ = webhook_configurations(ServiceReference("fleet", "fleethook"))
    return mutating


class Server:
    """The configuration with server-side apply; ``meanwhile`` runs between a read and the next write."""

    def __init__(self, present: dict[str, Any] | None) -> None:
        self.present = present
        self.written: list[Any] = []
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
            raise APIError(404, "NotFound", "not found")
        present = copy.deepcopy(self.present)
        present.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return present

    def add(self, *subjects: SubjectName) -> None:
        """Set the condition as another replica does."""
        assert self.present is not None
        self._version += 1
        for webhook in self.present["webhooks"]:
            if webhook["name"] in SELECTED:
                webhook["matchConditions"] = [*webhook["matchConditions"][:2], bound_condition(subjects)]
                webhook["rules"] = selected_rules(webhook["name"])

    def listed(self) -> frozenset[SubjectName] | None:
        assert self.present is not None
        conditions = [bound_condition_of(one) for one in self.present["webhooks"] if one["name"] in SELECTED]
        assert conditions[0] is not None
        assert conditions[0] == conditions[1]
        return listed_subjects(conditions[0]["expression"])

    async def request(self, method: str, path: str, *, query: Any, body: Any, content_type: str) -> bytes:
        assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
        assert (path, query) == (CONFIGURATION, {"fieldManager": "fleethook-selection", "force": "true"})
        if body["metadata"]["resourceVersion"] != str(self._version):
            raise APIError(409, "Conflict", "the object has been modified")
        self._version += 1
        self.written.append(body["webhooks"])
        assert self.present is not None
        self.present.setdefault("metadata", {})["annotations"] = body["metadata"].get("annotations", {})
        applied = {webhook["name"]: webhook for webhook in body["webhooks"]}
        for webhook in self.present["webhooks"]:
            kept = [one for one in webhook["matchConditions"] if one["name"] != "bound-to-an-overrider"]
            webhook["matchConditions"] = [*kept, *applied.get(webhook["name"], {}).get("matchConditions", [])]
            webhook.update({"rules": one["rules"]} if (one := applied.get(webhook["name"])) else {})
        return b'{"metadata":{"resourceVersion":"%d"}}' % self._version

    def announced(self) -> tuple[Announcement, ...]:
        assert self.present is not None
        return read_announcements(self.present["metadata"].get("annotations", {}).get(ANNOUNCED_ANNOTATION))


def writer(server: Server, subjects: Callable[[], Any], **rest: Any) -> ConditionWriter:
    return ConditionWriter(ConditionClient(server), subjects, pause_seconds=0, **rest)  # type: ignore[arg-type]


def announcer(server: Server, *bound: SubjectName, **rest: Any) -> Announcer:
    return Announcer(ConditionClient(server), lambda: bound, **rest)  # type: ignore[arg-type]
