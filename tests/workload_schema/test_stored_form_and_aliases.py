"""The stored form of a workload. tests/e2e/test_workload_rules.py compares it with a kube-apiserver."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.workload_schema import normalize_workload
from tests.workload_samples import full_deployment, full_stateful_set


def workload(pod: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    app = {"name": "app", "image": "a", **container}
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [app], **(pod or {})}}}}


def normalize(document: dict[str, Any]) -> dict[str, Any]:
    return normalize_workload(document, "Deployment")


@pytest.mark.parametrize("make", [full_deployment, full_stateful_set])
def test_a_document_in_stored_form_is_returned_as_it_is(make: Any) -> None:
    document = make()
    before = copy.deepcopy(document)
    assert normalize_workload(document, document["kind"]) is document
    assert document == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"tty": False, "stdin": True}, {"stdin": True}),
        ({"workingDir": "", "imagePullPolicy": ""}, {}),
        ({"args": [], "env": None, "command": ["c"]}, {"command": ["c"]}),
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        ({"args": ["a", None]}, {"args": ["a", ""]}),
        ({"resources": {}}, {"resources": {}}),
        ({"resources": {"limits": {}, "requests": {"cpu": 0.5}}}, {"resources": {"requests": {"cpu": "500m"}}}),
        ({"resources": {"limits": {"cpu": None}}}, {"resources": {"limits": {"cpu": "0"}}}),
        ({"resources": {"limits": {"cpu": "1n", "memory": "1024Mi"}}}, {"resources": {"limits": {"cpu": "1m", "memory": "1Gi"}}}),
        # A pointer distinguishes an explicit zero from an absent value.
        ({"securityContext": {"privileged": False}}, {"securityContext": {"privileged": False}}),
        ({"securityContext": {}}, {"securityContext": {}}),
        ({"livenessProbe": {"initialDelaySeconds": 0, "tcpSocket": {"port": 0}}}, {"livenessProbe": {"tcpSocket": {"port": 0}}}),
        # The apiserver refuses wrong types, so they stay unchanged.
        ({"tty": 0, "args": "x", "stdin": "", "resources": {"limits": {"cpu": "x", "memory": True}}},) * 2,
    ],
)  # fmt: skip
def test_containers_are_stored_without_members_that_go_omits(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert normalize(workload(**given)) == workload(**expected)


def test_pod_specs_are_stored_without_members_that_go_omits() -> None:
    pod = {
        "hostNetwork": False,
        "hostUsers": False,
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1n"}}],
        "nodeSelector": {},
    }
    expected = {"hostUsers": False, "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1n"}}]}
    assert normalize(workload(pod)) == workload(expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"serviceAccount": "a", "serviceAccountName": "b"}, {"serviceAccount": "b", "serviceAccountName": "b"}),
        ({"serviceAccount": "a", "serviceAccountName": ""}, {"serviceAccount": "a"}),
        ({"serviceAccount": 1, "serviceAccountName": "b"},) * 2,
    ],
)
def test_the_alias_of_the_service_account_follows_its_name(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert normalize(workload(given)) == workload(expected)


def test_volume_claim_templates_have_one_type() -> None:
    document = full_stateful_set()
    document["spec"]["volumeClaimTemplates"][0] |= {"apiVersion": "v2", "kind": "Claim"}
    assert normalize_workload(document, "StatefulSet") == full_stateful_set()


def test_unknown_members_are_dropped() -> None:
    document = workload({"a/b": None}, imagePulPolicy="x", env=[{"name": "A"}, {"name": "B", "vlaue": {"x": 1}}])
    assert normalize(document) == workload(env=[{"name": "A"}, {"name": "B"}])


def test_untouched_branches_are_the_same_objects() -> None:
    document = workload({"volumes": [{"name": "v"}], "hostIPC": False})
    before = copy.deepcopy(document)
    pod = normalize(document)["spec"]["template"]["spec"]
    assert pod["volumes"] is document["spec"]["template"]["spec"]["volumes"]
    assert pod["containers"] is document["spec"]["template"]["spec"]["containers"]
    assert document == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "template", "metadata", "labels", "containers", "env", "name", "x"]), inner, max_size=3),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "x"]), JSON, max_size=3))
def test_any_document_can_be_normalized_and_once_is_enough(document: dict[str, Any]) -> None:
    once = normalize_workload(document, "StatefulSet")
    assert normalize_workload(once, "StatefulSet") is once
