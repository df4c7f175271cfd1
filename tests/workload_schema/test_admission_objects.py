from typing import Any

import pytest

from fleethook.model.admission import AdmissionRequest
from fleethook.workload_schema.admission_objects import may_be_set, show_request
from fleethook.workload_schema.custom_resource_schema import CustomVersion

CREATION = AdmissionRequest(uid="u", operation="CREATE")


@pytest.mark.parametrize("metadata", [None, "x", {"name": "p", "finalizers": None}])
def test_an_object_with_unusual_metadata_is_shown(metadata: Any) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}
    shown = show_request(CREATION.with_objects(claim, None), None, validating=True)
    assert (shown.object["spec"]["volumeMode"], shown.old_object) == ("Filesystem", None)


def test_a_custom_resource_without_a_known_schema_keeps_its_members() -> None:
    boat = {"apiVersion": "e.org/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {"a": 1}, "status": {"b": 2}}
    for has_status in (False, True):
        version = CustomVersion({}, has_status)
        new = show_request(CREATION.with_objects(boat, None), version, validating=True).object
        assert (new["spec"], "status" in new, new["metadata"]["generation"]) == ({"a": 1}, not has_status, 1)


@pytest.mark.parametrize(
    ("path", "has_defaults", "expected"),
    [
        ("spec.clusterIP", True, True),
        ("spec.ports.*.nodePort", True, True),
        ("spec.ports.*.port", True, False),
        ("spec.externalName", True, False),
        ("spec.externalName", False, True),
        ("metadata.labels.a", False, False),
        ("metadata.managedFields.*.manager", True, True),
        ("spec.ports", False, False),
    ],
)
def test_a_member_of_the_cluster_may_be_set(path: str, *, has_defaults: bool, expected: bool) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
    assert may_be_set(service, path.split("."), has_defaults=has_defaults) is expected
