"""Defaults of ``spec.crdTarball``."""

from typing import Any

import pytest

from fleethook.engines.crds.instance.defaults import build_default_patch
from fleethook.patch import apply

POLICY = [{"op": "add", "path": "/spec/crdTarball/crdDownloadPolicy", "value": "IfNotPresent"}]


@pytest.mark.parametrize("tarball", [{}, {"httpSource": {"url": "https://h/"}}, {"crdDownloadPolicy": None}])
def test_a_tarball_without_a_policy_gets_upstreams(tarball: Any) -> None:
    assert build_default_patch({"spec": {"crdTarball": tarball}}) == POLICY


@pytest.mark.parametrize(
    "karmada",
    [
        {}, {"spec": None}, {"spec": {}}, {"spec": {"crdTarball": None}}, {"spec": {"crdTarball": 5}}, {"spec": []},
        {"spec": {"crdTarball": {"crdDownloadPolicy": "Always"}}}, {"spec": {"crdTarball": {"crdDownloadPolicy": ""}}},
    ],
)  # fmt: skip
def test_nothing_else_is_written(karmada: Any) -> None:
    assert build_default_patch(karmada) == []


def test_only_the_policy_is_defaulted() -> None:
    spec = {"suspend": True, "components": {"etcd": {}}, "crdTarball": {"httpSource": {"later": 1}}}
    karmada = {"spec": spec, "status": {"conditions": []}}
    patched = apply(karmada, build_default_patch(karmada))
    tarball = {"crdDownloadPolicy": "IfNotPresent", "httpSource": {"later": 1}}
    assert patched == {**karmada, "spec": {**spec, "crdTarball": tarball}}


def test_the_defaults_are_put_in_once() -> None:
    karmada = {"spec": {"crdTarball": {}}}
    assert build_default_patch(apply(karmada, build_default_patch(karmada))) == []
