"""Tests of releases and of versions of Karmada's operator."""

from typing import Any

import pytest

from fleethook.engines.crds.instance.karmada_release import Instance, is_release, read_instance_release


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1.10.0", True), ("v1.10.0-rc.1", True), ("v0.0.0-alpha.0", True), ("1.10.0", False), ("v1.10", False),
        ("v01.1.0", False), ("v1.1.0-dev.1", False), ("v1.10.0 ", False), ("v1.1.\u0661", False), ("latest", False),
    ],
)  # fmt: skip
def test_a_release_has_the_form_of_its_tag(text: str, *, expected: bool) -> None:
    assert is_release(text) is expected


def read(**tags: Any) -> Instance:
    components = {name: {"imageTag": tag} for name, tag in tags.items()}
    return read_instance_release({"spec": {"components": components}})


@pytest.mark.parametrize(
    "tags",
    [
        {"karmadaWebhook": "v1.9.0"},
        {"karmadaWebhook": "v1.9.0", "karmadaSearch": "v1.9.0@sha256:abc"},
        {"karmadaWebhook": " v1.9.0 ", "etcd": "3.5.9", "kubeAPIServer": "v1.30.0"},
        {"karmadaWebhook": "v1.9.0", "karmadaSearch": 5, "karmadaScheduler": "", "karmadaDescheduler": "x" * 129},
    ],
)
def test_components_with_one_tag_have_its_release(tags: dict[str, Any]) -> None:
    assert read(**tags) == Instance("v1.9.0", "")
