"""Registration of the kinds that Karmada sends, with Karmada's own definitions on a real apiserver."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chart import Release, read_granted_rights, read_used_rights
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import run_registered_server
from tests.e2e.karmada_crds import install_karmada_crds
from tests.serving import Server
from tests.waiting import wait_for

CONFIG = "/apis/config.karmada.io/v1alpha1"
CUSTOMIZATIONS = f"{CONFIG}/resourceinterpretercustomizations"
CONFIGURATIONS = f"{CONFIG}/resourceinterpreterwebhookconfigurations"
OWN = f"{CONFIGURATIONS}/fleethook"
SCRIPTS = {
    "retention": "function Retain(d, o) return d end",
    "healthInterpretation": "function InterpretHealth(o) return true end",
}


@pytest.fixture(scope="module")
def karmada(admin: Api, crds: None) -> None:
    install_karmada_crds(admin)


def test_the_chart_grants_the_rights_that_registration_uses(
    helm: Path, plane: ControlPlane, admin: Api, kubeconfig: Path, karmada: None, namespace: str, tmp_path: Path
) -> None:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values["engines"] = {"overrider": {"enabled": False}, "interpret": {"enabled": True, "register": "missing"}}
    release.install()
    try:
        with release.server(tmp_path):
            wait_for(lambda: sent(admin, "cert-manager.io"), what="the bundled kinds are registered")
            (webhook,) = admin[OWN]["webhooks"]
            assert webhook["clientConfig"]["url"].endswith("/interpret")
            # A patch that creates an object needs both rights, and is audited as a patch.
            created = ("config.karmada.io", "resourceinterpreterwebhookconfigurations", "create")
            wanted = {right for right in read_granted_rights(helm, release) if right[0] == created[0]} - {created}

            def all_used() -> bool:
                assert wanted - read_used_rights(plane, release.account) == set()
                return True

            wait_for(all_used, what="all of it is used")
    finally:
        release.helm("uninstall", "fleethook")
        admin.call("DELETE", OWN)


@pytest.fixture(scope="module")
def server(plane: ControlPlane, karmada: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_registered_server(plane, tmp_path_factory.mktemp("registration")) as running:
        yield running


def customization(kind: str, *rules: str) -> dict[str, Any]:
    scripts = {rule: {"luaScript": SCRIPTS[rule]} for rule in rules}
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": kind.lower()},
        "spec": {"target": {"apiVersion": "games.example.com/v1", "kind": kind}, "customizations": scripts},
    }


def foreign(kind: str, operation: str) -> dict[str, Any]:
    rule = {
        "apiGroups": ["games.example.com"], "apiVersions": ["*"], "kinds": [kind], "operations": [operation],
    }  # fmt: skip
    webhook = {
        "name": "somebody.example.org", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "rules": [rule],
        "interpreterContextVersions": ["v1alpha1"], "timeoutSeconds": 1,
    }  # fmt: skip
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "somebody"},
        "webhooks": [webhook],
    }


def sent(admin: Api, group: str) -> dict[str, list[str]]:
    """Return the operations of each kind of a group that Karmada sends here."""
    status, found, _ = admin.call("GET", OWN)
    if status != 200:
        return {}
    return {
        kind: rule["operations"]
        for webhook in found["webhooks"]
        for rule in webhook["rules"]
        if rule["apiGroups"] == [group]
        for kind in rule["kinds"]
    }


def test_the_leader_registers_its_kinds_and_keeps_them_current(server: Server, admin: Api, put: Any) -> None:
    wait_for(lambda: sent(admin, "cert-manager.io"), what="the bundled kinds are registered")
    assert "InterpretHealth" in sent(admin, "cert-manager.io")["Certificate"]
    assert (sent(admin, "apps"), sent(admin, "")) == ({}, {})
    (webhook,) = admin[OWN]["webhooks"]
    assert webhook["clientConfig"]["url"] == f"https://127.0.0.1:{server.port}/interpret"
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == server.authority.read_bytes()

    put(CUSTOMIZATIONS, customization("Game", "retention"))
    only = {"Game": ["Retain"]}
    wait_for(lambda: sent(admin, "games.example.com") == only, what="the customization is registered")
    put(CUSTOMIZATIONS, customization("Game", "retention", "healthInterpretation"))
    put(CUSTOMIZATIONS, customization("Match", "healthInterpretation"))
    both = {"Game": ["Retain", "InterpretHealth"], "Match": ["InterpretHealth"]}
    wait_for(lambda: sent(admin, "games.example.com") == both, what="the edit is registered")

    # Karmada calls only the first configuration by name.
    put(CONFIGURATIONS, foreign("Game", "Retain"))
    other = {"Game": ["InterpretHealth"], "Match": ["InterpretHealth"]}
    wait_for(lambda: sent(admin, "games.example.com") == other, what="the foreign hook is left alone")
    admin.merge(OWN, {"webhooks": []})
    wait_for(lambda: sent(admin, "games.example.com") == other, what="the configuration is written again")
