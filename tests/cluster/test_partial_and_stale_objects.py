import pytest

from fleethook.cluster.partial_and_stale_objects import STALE_SECONDS, PartialObject, PartState
from fleethook.model.gvk import GroupKind
from tests.builders import store_of, workload


@pytest.mark.parametrize(
    ("age", "expected"), [(None, False), (0.0, False), (STALE_SECONDS, False), (STALE_SECONDS + 1, True)]
)
def test_a_part_is_stale_if_it_was_read_and_the_apiserver_is_silent(age: float | None, *, expected: bool) -> None:
    assert PartState("pods", synced=True, detail="", age=age, failing=False).is_stale is expected


def test_the_store_keeps_workloads_as_partial_objects() -> None:
    document = workload()
    kept = store_of(document).get("", GroupKind("apps", "Deployment"), "default", "demo-hangzhou-x")
    assert isinstance(kept, PartialObject)
    assert (kept.labels, kept.owners) == (
        document["metadata"]["labels"],
        tuple(document["metadata"]["ownerReferences"]),
    )
