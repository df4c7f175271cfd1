"""Tests of encoding and decoding as Go does. tests/conformance/test_openyurt.py compares the results with OpenYurt's."""

from typing import Any

import pytest

from fleethook.workload_schema.go_structs import (
    DecodeError,
    decode_into,
    find_field,
    load_structs,
    print_workload,
    root_name,
    struct_name,
)
from tests.builders import container, pod_template, workload


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


def test_fields_match_the_go_tags() -> None:
    volumes = load_structs()["core.v1.PodSpec"]["volumes"]
    assert (volumes.type, volumes.omit) == ("[]core.v1.Volume", "empty")
    assert load_structs()["apps.v1.DeploymentSpec"]["selector"].omit == ""


def decode(text: Any, **spec: Any) -> dict[str, Any]:
    """Return the spec of a workload after Go has decoded a spec into it."""
    before = workload(**{"replicas": 2, **spec})
    made: dict[str, Any] = decode_into(before, {"spec": text}, "Deployment")["spec"]
    return made


def decode_pod(text: Any, **pod: Any) -> dict[str, Any]:
    pods: dict[str, Any] = decode({"template": {"spec": text}}, template=pod_template(**pod))["template"]["spec"]
    return pods


def test_members_that_omitempty_does_not_omit_are_printed() -> None:
    printed = print_workload(workload(), "Deployment")
    assert printed["metadata"]["creationTimestamp"] is None
    assert printed["spec"]["strategy"] == {}
    assert printed["spec"]["template"]["spec"]["containers"][0]["resources"] == {}
    assert "paused" not in printed["spec"]
    assert printed["status"] == {}


def test_an_unpatched_workload_stays_the_same() -> None:
    assert decode_into(workload(), print_workload(workload(), "Deployment"), "Deployment") == workload()
    stateful = workload("StatefulSet", serviceName="s")
    assert decode_into(stateful, print_workload(stateful, "StatefulSet"), "StatefulSet") == stateful


def test_a_member_that_the_text_lacks_stays() -> None:
    assert decode({"minReadySeconds": 5}, paused=True)["paused"] is True
    assert decode({"minReadySeconds": 5}, paused=True)["minReadySeconds"] == 5


def test_null_unsets_pointers_lists_and_maps_and_no_scalars() -> None:
    assert "replicas" not in decode({"replicas": None})
    assert decode({"minReadySeconds": None}, minReadySeconds=5)["minReadySeconds"] == 5
    pods = decode_pod(
        {"volumes": None, "nodeSelector": None, "dnsPolicy": None},
        volumes=[{"name": "a"}], nodeSelector={"a": "b"}, dnsPolicy="Default",
    )  # fmt: skip
    assert pods == {**pod_template()["spec"], "dnsPolicy": "Default"}


def test_keys_of_maps_stay() -> None:
    assert decode_pod({"nodeSelector": {"b": "2"}}, nodeSelector={"a": "1", "b": "1"})["nodeSelector"] == {
        "a": "1",
        "b": "2",
    }


def test_elements_inherit_members_from_their_predecessors_at_the_index() -> None:
    text = {"containers": [{"name": "new", "image": "n:1"}, container("a")]}
    pods = decode_pod(text, containers=[container("a", args=["x"], workingDir="/w")])
    assert pods["containers"] == [
        {"name": "new", "image": "n:1", "args": ["x"], "workingDir": "/w"},
        container("a"),
    ]


def test_names_match_in_any_case_and_unknown_ones_are_ignored() -> None:
    assert decode({"MINreadySECONDS": 5, "unknown": 1}).get("minReadySeconds") == 5
    assert "unknown" not in decode({"unknown": 1})


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
