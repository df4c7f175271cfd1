"""The defaults of kube-apiserver: each is a field that the validation of overriders knows as one that is filled in."""

import pytest

from fleethook.engines.overrider.render.defaulted_fields import explain_missing
from fleethook.engines.overrider.render.member_differences import ABSENT, Difference
from fleethook.engines.overrider.rollout import defaults
from fleethook.engines.overrider.rollout.defaults import find_default, is_default

_PODS = "/spec/template/spec"


def removed(pointer: str, stored: object) -> Difference:
    return Difference(pointer, tuple(pointer.split("/")[1:]), ABSENT, stored)


def choose_pointer(path: tuple[str, ...]) -> str:
    """Return a pointer for a path with wildcards: the first element, a probe or a handler."""
    tokens = []
    for position, token in enumerate(path):
        is_probe = position == 5 and path[3] in ("containers", "initContainers")
        name = "preStop" if path[position - 1] == "lifecycle" else "livenessProbe" if is_probe else "0"
        tokens.append(name if token == "*" else token)
    return f"/{'/'.join(tokens)}"


def test_each_default_is_a_field_that_kubernetes_fills_in() -> None:
    assert [path for path in defaults._DEFAULTS if not explain_missing(choose_pointer(path))] == []


@pytest.mark.parametrize(
    ("pointer", "stored"),
    [
        (f"{_PODS}/containers/0/livenessProbe/periodSeconds", 10),
        (f"{_PODS}/initContainers/3/ports/0/protocol", "TCP"),
        (f"{_PODS}/containers/0/lifecycle/preStop/httpGet/scheme", "HTTP"),
        (f"{_PODS}/volumes/2/configMap/defaultMode", 420),
        (f"{_PODS}/volumes/2/projected/sources/0/serviceAccountToken/expirationSeconds", 3600),
        (f"{_PODS}/serviceAccount", "robot"),
        (f"{_PODS}/containers/0/imagePullPolicy", "Always"),
        ("/spec/revisionHistoryLimit", 10),
    ],
)
def test_a_removed_default_comes_back(pointer: str, stored: object) -> None:
    assert is_default(removed(pointer, stored))


@pytest.mark.parametrize(
    ("pointer", "stored"),
    [
        (f"{_PODS}/containers/0/livenessProbe/periodSeconds", 11),
        (f"{_PODS}/containers/0/image", "nginx"),
        (f"{_PODS}/volumes/0/emptyDir/sizeLimit", "1Gi"),
        (f"{_PODS}/affinity", {}),
        (f"{_PODS}/serviceAccountName", "robot"),
        ("/metadata/labels/replicas", 1),
    ],
)
def test_any_other_removed_value_is_gone(pointer: str, stored: object) -> None:
    assert not is_default(removed(pointer, stored))


def test_the_default_of_an_absent_member_is_known_by_its_path() -> None:
    pods = ("spec", "template", "spec")
    assert find_default(("spec", "revisionHistoryLimit")) == 10
    assert find_default((*pods, "containers", "*", "livenessProbe", "periodSeconds")) == 10
    assert find_default((*pods, "containers", "*", "imagePullPolicy")) is None
    assert find_default((*pods, "hostNetwork")) is None
