from typing import Any

import pytest

from fleethook.workload_schema.defaults import explain_missing, find_default, knows_defaults, set_defaults


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/spec/strategy", "strategy"),
        ("/spec/template/spec/restartPolicy", "restartPolicy"),
        ("/spec/template/spec/dnsPolicy", "dnsPolicy"),
        ("/spec/template/spec/schedulerName", "schedulerName"),
        ("/spec/template/spec/terminationGracePeriodSeconds", "terminationGracePeriodSeconds"),
        ("/spec/template/spec/containers/0/imagePullPolicy", "imagePullPolicy"),
        ("/spec/template/spec/initContainers/[name=app]/imagePullPolicy", "imagePullPolicy"),
        ("/spec/template/spec/containers/[name=app]/ports/0/protocol", "protocol"),
        ("/spec/template/spec/containers/0/livenessProbe/periodSeconds", "periodSeconds"),
        ("/spec/template/spec/volumes/3/configMap/defaultMode", "defaultMode"),
        ("/spec/updateStrategy/rollingUpdate/partition", "partition"),
    ],
)
def test_a_field_that_kubernetes_fills_in_is_explained(path: str, member: str) -> None:
    assert explain_missing(path) == (
        f"Kubernetes fills in {member} later and the template does not set it: to set it, use operation add"
    )


@pytest.mark.parametrize(
    "path", ["", "/", "/spec", "/spec/paused", "/spec/template/spec/containers/0/args", "/strategy", "/spec/strategy/x"]
)
def test_other_missing_fields_have_no_explanation(path: str) -> None:
    assert explain_missing(path) == ""


def test_the_default_of_an_absent_member_is_known_by_its_path() -> None:
    pods = ("spec", "template", "spec")
    assert find_default(("spec", "revisionHistoryLimit")) == 10
    assert find_default((*pods, "containers", "*", "livenessProbe", "periodSeconds")) == 10
    assert find_default((*pods, "containers", "*", "imagePullPolicy")) is None
    assert find_default((*pods, "hostNetwork")) is None


@pytest.mark.parametrize("spec", [None, [], "x", {"containers": {"a": 1}, "volumes": [1, None]}, {"tolerations": "x"}])
def test_values_of_a_wrong_type_stay(spec: Any) -> None:
    shown = set_defaults({"apiVersion": "v1", "kind": "Pod", "metadata": [], "spec": spec})
    assert shown["metadata"] == []
    assert isinstance(shown["spec"], dict) or shown["spec"] == spec


def test_a_kind_without_known_defaults_stays() -> None:
    boat = {"apiVersion": "example.org/v1", "kind": "Boat", "spec": None}
    assert not knows_defaults(boat)
    assert set_defaults(boat) is boat
