"""Tests of the release of an instance's images."""

from typing import Any

import pytest

from fleethook.engines.crds.instance.images import Instance, read_instance_release


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


def test_different_tags_are_named() -> None:
    found = read(karmadaWebhook="v1.9.0", karmadaSearch="v1.8.0")
    assert found.release == ""
    assert found.warning.startswith(
        "spec.components: image tags disagree (karmadaWebhook v1.9.0, karmadaSearch v1.8.0)"
    )


def test_a_tag_that_is_no_release_is_named() -> None:
    assert read(karmadaWebhook="latest") == Instance(
        "", "spec.components: the image tag latest is no release, so it says nothing about the CRDs"
    )


@pytest.mark.parametrize("karmada", [{}, {"spec": None}, {"spec": {"components": []}}])
def test_an_instance_without_tags_has_no_release_and_no_warning(karmada: dict[str, Any]) -> None:
    assert read_instance_release(karmada) == Instance("", "")
