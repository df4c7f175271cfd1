"""Workloads that are created while an overrider with policies is edited, with two replicas.

An edit is complete when each replica has received it from its watch, and kube-apiserver has dropped the policies of the
former version. From then on, each new workload has the version of the edit and nothing else. Before, a workload may have
the former version, or values of both (docs/explanation/guarantees.md, docs/decisions/0013-policies-beside-the-webhook.md).
No duration decides: the test asks the replicas and kube-apiserver.
"""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from fleethook.engines.overrider.policies.mode import PROBE_ANNOTATION
from tests.builders import entry
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.subject import Subject
from tests.e2e.test_policy_modes import AUTO, POOLS, create, subject, wait_for_policy
from tests.e2e.workloads import images, path_of, workload_of
from tests.serving import Server, patched
from tests.waiting import wait_for

__all__ = ["subject"]

_EDITS = 6
_WRITERS = 4


class Created(NamedTuple):
    """A workload, and the times around the request that created it."""

    sent: float
    answered: float
    workload: dict[str, Any]


class Edit(NamedTuple):
    """An edit of the overrider."""

    sent: float
    completed: float
    """A time at which no replica and no policy had a former version."""
    version: int


class Editor(NamedTuple):
    """Edits an overrider, and knows when an edit is complete."""

    admin: Api
    subject: Subject
    replicas: Fleet

    def override(self, version: int) -> Edit:
        """Write a version that sets an image, and a label that no other version sets."""
        patches = [{"operation": "add", "path": f"/metadata/labels/example.com~1v{version}", "value": "set"}]
        items = [{"image": {"containerName": "nginx", "imageClaim": f"nginx:{version}.0"}}]
        sent = time.monotonic()
        self.subject.override(entry("*", items=items, patches=patches))
        for server in self.replicas.servers:
            wait_for(lambda server=server: self._is_received(server, version), what="the replica has the version")
        wait_for(lambda: self._has_no_policy_before(version), what="the former policies have ended")
        return Edit(sent, time.monotonic(), version)

    def _is_received(self, server: Server, version: int) -> bool:
        """Return whether a replica renders a version. Its watch never goes back."""
        workload = workload_of(self.subject.stored, POOLS[0])
        request = {
            "uid": "u", "operation": "CREATE", "namespace": self.subject.namespace, "object": workload,
            "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        }  # fmt: skip
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        status, body = server.request("POST", "/mutate-apps-v1-deployment", json.dumps(review).encode())
        response = json.loads(body).get("response", {}) if status == 200 else {}
        return "patch" in response and versions_of(patched(workload, response)) == expected(version)

    def _has_no_policy_before(self, version: int) -> bool:
        """Return whether no policy of a former version renders a workload that the webhook leaves alone."""
        workload = workload_of(self.subject.stored, POOLS[0])
        workload["metadata"]["annotations"] = {PROBE_ANNOTATION: "true"}
        made = self.admin.create(path_of(workload), workload, dryRun="All")
        return versions_of(made)[1] in ([], expected(version)[1])


def versions_of(workload: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the image, and the labels that versions have set."""
    labels = workload["metadata"].get("labels", {})
    return images(workload)["nginx"], sorted(name for name in labels if name.startswith("example.com/v"))


def expected(version: int) -> tuple[str, list[str]]:
    return f"nginx:{version}.0", [f"example.com/v{version}"]


def find_possible(edits: list[Edit], one: Created) -> list[int]:
    """Return the versions that a replica or a policy may have had at some time during the creation."""
    found = []
    for edit, following in zip(edits, [*edits[1:], None], strict=True):
        if edit.sent <= one.answered and (following is None or one.sent <= following.completed):
            found.append(edit.version)
    return found


def is_right(workload: dict[str, Any], possible: list[int]) -> bool:
    """Return whether a workload has one of the versions completely, and nothing of other versions than these."""
    image, labels = versions_of(workload)
    own = [expected(version)[1][0] for version in possible if expected(version)[0] == image]
    former = {expected(version)[1][0] for version in possible}
    return len(own) == 1 and own[0] in labels and former.issuperset(labels)


def create_until(end: threading.Event, admin: Api, subject: Subject, number: int) -> Iterator[Created]:
    while not end.is_set():
        workload = workload_of(subject.stored, POOLS[number % 2])
        sent = time.monotonic()
        # A dry run has the same admission. Thousands of stored workloads would only keep the leader busy.
        made = admin.create(path_of(workload), workload, dryRun="All")
        yield Created(sent, time.monotonic(), made)


def test_a_workload_that_is_created_after_an_edit_has_only_its_version(
    admin: Api, plane: ControlPlane, subject: Subject, namespace: str, tmp_path: Path
) -> None:
    with fleet(plane, tmp_path, namespace, replicas=2, **AUTO) as replicas, ThreadPoolExecutor(_WRITERS) as executor:
        editor = Editor(admin, subject, replicas)
        edits = [editor.override(2)]
        wait_for_policy(admin, subject)
        end = threading.Event()
        stored: list[Created] = []
        writers = [
            executor.submit(lambda number: list(create_until(end, admin, subject, number)), number)
            for number in range(_WRITERS)
        ]
        try:
            for version in range(3, 3 + _EDITS):
                edits.append(editor.override(version))
                sent = time.monotonic()
                workload = create(admin, subject, "beijing")
                stored.append(Created(sent, time.monotonic(), workload))
                if version == 3 + _EDITS // 2:
                    # The next edits are faster than the policies: the webhook renders all the time.
                    continue
                if version % 2:
                    wait_for_policy(admin, subject)
        finally:
            end.set()
        # Each of them was created after one edit was complete, and before the next one was sent.
        assert [versions_of(one.workload) for one in stored] == [expected(edit.version) for edit in edits[1:]]
        made = [one for writer in writers for one in writer.result()]
        after = [one for one in made if len(find_possible(edits, one)) == 1]
        assert len(after) > 10 * _EDITS
        wrong = [
            (versions_of(one.workload), possible)
            for one in made
            if not is_right(one.workload, possible := find_possible(edits, one))
        ]
        assert wrong == [], f"{len(wrong)} of {len(made)}"
        last = expected(edits[-1].version)
        wait_for(
            lambda: all(versions_of(admin[path_of(one.workload)]) == last for one in stored),
            what="workloads of former versions get the last one",
        )
        assert len(replicas.servers) == 2
