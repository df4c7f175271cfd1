"""Tests of encoding and decoding as Go does. tests/conformance/test_openyurt.py compares the results with OpenYurt's."""

from typing import Any

import pytest

from fleethook.workload_schema.go_structs import (
    DecodeError,
    decode_into,
    find_field,
    load_structs,
    root_name,
    struct_name,
)
from tests.builders import workload


def test_lists_have_the_keys_of_server_side_apply() -> None:
    keys = {
        f"{struct.rpartition('.')[2]}.{name}": dict(field.keys)
        for struct, members in load_structs().items()
        for name, field in members.items()
        if field.keys and not struct.endswith("Status") and "Ephemeral" not in struct
    }
    assert keys == {
        "Container.env": {"name": None},
        "Container.ports": {"containerPort": None, "protocol": "TCP"},
        "Container.volumeDevices": {"devicePath": None},
        "Container.volumeMounts": {"mountPath": None},
        "ObjectMeta.ownerReferences": {"uid": None},
        "PodSpec.containers": {"name": None},
        "PodSpec.ephemeralContainers": {"name": None},
        "PodSpec.hostAliases": {"ip": None},
        "PodSpec.imagePullSecrets": {"name": None},
        "PodSpec.initContainers": {"name": None},
        "PodSpec.resourceClaims": {"name": None},
        "PodSpec.schedulingGates": {"name": None},
        "PodSpec.topologySpreadConstraints": {"topologyKey": None, "whenUnsatisfiable": None},
        "PodSpec.volumes": {"name": None},
        "ResourceRequirements.claims": {"name": None},
    }


def test_every_struct_that_a_field_names_is_there() -> None:
    structs = load_structs()
    assert {root_name("Deployment"), root_name("StatefulSet")} <= structs.keys()
    named = {struct_name(field.type) for members in structs.values() for field in members.values()}
    assert named - {None} <= structs.keys()


def decode(text: Any, **spec: Any) -> dict[str, Any]:
    """Return the spec of a workload after Go has decoded a spec into it."""
    before = workload(**{"replicas": 2, **spec})
    made: dict[str, Any] = decode_into(before, {"spec": text}, "Deployment")["spec"]
    return made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"replicas": "3"}, "/spec/replicas must be of type int32"),
        ({"replicas": True}, "/spec/replicas must be of type int32"),
        ({"paused": 1}, "/spec/paused must be of type bool"),
        ({"template": []}, "/spec/template must be an object"),
        ({"template": {"spec": {"containers": {}}}}, "/spec/template/spec/containers must be a list"),
        ({"template": {"spec": {"containers": [{"image": 1}]}}}, "/spec/template/spec/containers/0/image must be of type string"),
        ({"template": {"spec": {"nodeSelector": {"a": 1}}}}, "/spec/template/spec/nodeSelector/a must be of type string"),
        ({"template": {"spec": {"nodeSelector": []}}}, "/spec/template/spec/nodeSelector must be an object"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_named_with_its_path(text: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(text)
    assert str(caught.value) == message


def test_a_workload_that_is_no_object_is_named() -> None:
    with pytest.raises(DecodeError, match="the workload must be an object"):
        decode_into(workload(), [], "Deployment")


@pytest.mark.parametrize(
    ("tokens", "type_"),
    [
        ("spec replicas", "*int32"),
        ("spec template spec containers 0 image", "string"),
        ("spec template spec containers * resources limits", "ResourceList"),
        ("spec template spec containers 0", None),
        ("spec template spec nodeSelector disk", None),
        ("spec unknown", None),
        ("spec unknown image", None),
    ],
)
def test_a_path_leads_to_the_member_of_a_struct(tokens: str, type_: str | None) -> None:
    field = find_field(tokens.split(), root_name("Deployment"))
    assert (None if field is None else field.type) == type_
