"""A stored workload is described as kubectl describes it, and a damaged one without an error.

Its page lists its Events, or says in a sentence why it does not.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.pages.running_workload import (
    Rollout,
    WorkloadCondition,
    describe_workload,
)
from tests.builders import workload

SINCE = "2026-11-25T21:37:00Z"


def running(status: dict[str, Any], *, generation: int = 2, replicas: int = 3) -> dict[str, Any]:
    document = workload(pool="hangzhou")
    document["metadata"] |= {"generation": generation, "creationTimestamp": SINCE}
    document["spec"]["replicas"] = replicas
    return {**document, "status": status}


@pytest.mark.parametrize(
    ("observed", "counts", "expected"),
    [
        (2, (3, 3, 3), Rollout("complete", 3, 3, 3)),
        (2, (4, 1, 3), Rollout("in progress", 3, 1, 3)),
        (2, (4, 3, 3), Rollout("in progress", 3, 3, 3)),
        (1, (3, 3, 3), Rollout("not observed", 3, 3, 3)),
    ],
)
def test_a_rollout_is_read_from_the_status(observed: int, counts: tuple[int, int, int], expected: Rollout) -> None:
    names = ("replicas", "updatedReplicas", "availableReplicas")
    status = {"observedGeneration": observed, **dict(zip(names, counts, strict=True))}
    assert describe_workload(running(status)).rollout == expected


def test_without_a_status_the_rollout_is_unknown() -> None:
    shown = describe_workload(running({}))
    assert (shown.name, shown.namespace, shown.created, shown.rollout) == (
        "demo-hangzhou-x", "default", "2026-11-25 21:37:00", None,
    )  # fmt: skip


def test_conditions_have_their_reason_and_time() -> None:
    stored = {"type": "Progressing", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": SINCE}
    assert describe_workload(running({"conditions": [stored]})).conditions == [
        WorkloadCondition("Progressing", "False", "R", "m", "2026-11-25 21:37:00")
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(metadata=ANYTHING, status=ANYTHING, spec=ANYTHING, fields=ANYTHING)
def test_documents_with_fields_of_any_type_are_described(metadata: Any, status: Any, spec: Any, fields: Any) -> None:
    describe_workload({"metadata": metadata, "status": status, "spec": spec})
    describe_workload({"status": {"conditions": [fields]}})
