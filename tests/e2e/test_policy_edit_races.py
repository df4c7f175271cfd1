"""Workloads that are created while an overrider with policies is edited, with two replicas."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.builders import entry
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import fleet
from tests.e2e.subject import Subject
from tests.e2e.test_policy_modes import AUTO, POOLS, create, subject, wait_for_policy
from tests.e2e.workloads import images, path_of, workload_of
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
    """An edit of the overrider, and the times around its request."""

    sent: float
    answered: float
    version: int


def override(subject: Subject, version: int) -> Edit:
    """Write a version that sets an image, and a label that no other version sets."""
    patches = [{"operation": "add", "path": f"/metadata/labels/example.com~1v{version}", "value": "set"}]
    items = [{"image": {"containerName": "nginx", "imageClaim": f"nginx:{version}.0"}}]
    sent = time.monotonic()
    subject.override(entry("*", items=items, patches=patches))
    return Edit(sent, time.monotonic(), version)


def versions_of(workload: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the image, and the labels that versions have set."""
    labels = workload["metadata"].get("labels", {})
    return images(workload)["nginx"], sorted(name for name in labels if name.startswith("example.com/v"))


def expected(version: int) -> tuple[str, list[str]]:
    return f"nginx:{version}.0", [f"example.com/v{version}"]


def possible(edits: list[Edit], one: Created) -> set[int]:
    """Return the versions that were stored at some time during the creation."""
    found = set()
    for edit, following in zip(edits, [*edits[1:], None], strict=True):
        if edit.sent <= one.answered and (following is None or one.sent <= following.answered):
            found.add(edit.version)
    return found


def create_until(end: threading.Event, admin: Api, subject: Subject, number: int) -> Iterator[Created]:
    while not end.is_set():
        workload = workload_of(subject.stored, POOLS[number % 2])
        sent = time.monotonic()
        # A dry run has the same admission. Thousands of stored workloads would only keep the leader busy.
        made = admin.create(path_of(workload), workload, dryRun="All")
        yield Created(sent, time.monotonic(), made)


def test_each_workload_that_is_created_during_edits_has_one_version_completely(
    admin: Api, plane: ControlPlane, subject: Subject, namespace: str, tmp_path: Path
) -> None:
    with fleet(plane, tmp_path, namespace, replicas=2, **AUTO) as replicas, ThreadPoolExecutor(_WRITERS) as executor:
        edits = [override(subject, 2)]
        wait_for_policy(admin, subject)
        end = threading.Event()
        stored: list[Created] = []
        writers = [
            executor.submit(lambda number: list(create_until(end, admin, subject, number)), number)
            for number in range(_WRITERS)
        ]
        try:
            for version in range(3, 3 + _EDITS):
                edits.append(override(subject, version))
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
        made = [*stored, *(one for writer in writers for one in writer.result())]
        assert len(made) > 10 * _EDITS
        wrong = [
            (versions_of(one.workload), sorted(possible(edits, one)))
            for one in made
            if versions_of(one.workload) not in [expected(version) for version in possible(edits, one)]
        ]
        assert wrong == [], f"{len(wrong)} of {len(made)}"
        last = expected(edits[-1].version)
        wait_for(
            lambda: all(versions_of(admin[path_of(one.workload)]) == last for one in stored),
            what="workloads of former versions get the last one",
        )
        assert len(replicas.servers) == 2
