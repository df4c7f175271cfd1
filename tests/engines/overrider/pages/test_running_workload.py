"""A stored workload is described as kubectl describes it, and a damaged one without an error."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.pages.running_workload import (
    MAX_FIELDS,
    FieldManager,
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
        "demo-hangzhou-x", "default", "2026-11-25 21:37", None,
    )  # fmt: skip


def test_conditions_have_their_reason_and_time() -> None:
    stored = {"type": "Progressing", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": SINCE}
    assert describe_workload(running({"conditions": [stored]})).conditions == [
        WorkloadCondition("Progressing", "False", "R", "m", "2026-11-25 21:37")
    ]


def manage(name: str, time: str, fields: dict[str, Any], **further: str) -> dict[str, Any]:
    return {"manager": name, "operation": "Update", "time": time, "fieldsV1": fields, **further}


def test_field_managers_are_listed_with_their_fields_the_last_one_first() -> None:
    document = running({})
    image = {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}
    document["metadata"]["managedFields"] = [
        manage("yurt-manager", "2026-11-24T10:00:00Z", {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": image}}}),
        manage("kubectl-edit", SINCE, {"f:metadata": {"f:finalizers": {'v:"a"': {}}}}),
        manage("kube-controller-manager", SINCE, {"f:status": {"f:replicas": {}}}, subresource="status"),
        manage("old-client", SINCE, {"f:status": {"f:replicas": {}}}),
    ]
    assert describe_workload(document).managers == [
        FieldManager("kubectl-edit", "Update", "2026-11-25 21:37", ['metadata/finalizers/["a"]'], 1),
        FieldManager(
            "yurt-manager",
            "Update",
            "2026-11-24 10:00",
            ["spec/replicas", "spec/template/spec/containers/[name=web]/image"],
            2,
        ),
    ]


def test_many_fields_are_counted() -> None:
    document = running({})
    fields = {"f:spec": {f"f:{number}": {} for number in range(50)}}
    document["metadata"]["managedFields"] = [manage("m", SINCE, fields)]
    (shown,) = describe_workload(document).managers
    assert (len(shown.fields), shown.total) == (MAX_FIELDS, 50)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(metadata=ANYTHING, status=ANYTHING, spec=ANYTHING, fields=ANYTHING)
def test_documents_with_fields_of_any_type_are_described(metadata: Any, status: Any, spec: Any, fields: Any) -> None:
    describe_workload({"metadata": metadata, "status": status, "spec": spec})
    managed = [{"manager": fields, "time": fields, "fieldsV1": fields}, fields]
    describe_workload({"metadata": {"managedFields": managed}, "status": {"conditions": [fields]}})
