"""The chart's rules: a ConfigMap that a server loads, its rights, a CA that changes, an outage, and the uninstallation."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chart import CHART, Release, environment_of, read_granted_rights, read_used_rights, template
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.test_rules import MUTATING, RULES, VALIDATING, create, deployment, webhooks
from tests.waiting import wait_for

NAME = "fleethook-rules"


@pytest.fixture
def release(helm: Path, plane: ControlPlane, admin: Api, kubeconfig: Path, namespace: str) -> Iterator[Release]:
    made = Release(helm, plane, kubeconfig, namespace)
    made.values["engines"] = {
        "overrider": {"enabled": False},
        "rules": {"enabled": True, "files": {"rules.py": RULES}},
    }
    made.install()
    yield made
    made.helm("uninstall", "fleethook")
    # Only a server in the cluster names an owner, an object of the release, with which they are deleted.
    for collection in (MUTATING, VALIDATING):
        admin.delete(f"{collection}/{NAME}")


def mount(admin: Api, helm: Path, release: Release, directory: Path) -> list[str]:
    """Write the files of the ConfigMap as the kubelet does, and return the arguments of the server."""
    found = admin[f"/api/v1/namespaces/{release.namespace}/configmaps/fleethook-rules"]["data"]
    for name, text in found.items():
        (directory / name).write_text(text)
    documents = template(helm, release.values, namespace=release.namespace)
    (container,) = next(one for one in documents if one["kind"] == "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    names = [Path(one).name for one in json.loads(environment_of(container)["FLEETHOOK_RULES"])]
    assert sorted(names) == sorted(found)
    return [argument for name in names for argument in ("--rules", str(directory / name))]


def authorities(admin: Api, collection: str) -> set[str]:
    return {one["clientConfig"].get("caBundle", "") for one in webhooks(admin, collection, NAME) or ()}


def test_rules_of_a_release_decide_follow_their_config_map_and_survive_an_outage(
    helm: Path, plane: ControlPlane, admin: Api, release: Release, namespace: str, tmp_path: Path
) -> None:
    team = f"{namespace}-team"
    labels = {"metadata": {"name": team, "labels": {"team": "web"}}}
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **labels})
    arguments = mount(admin, helm, release, tmp_path)
    pods, template_ = f"/api/v1/namespaces/{team}/pods", deployment()["spec"]["template"]
    pod: dict[str, Any] = {**template_, "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}

    def message(text: str) -> bool:
        return create(admin, team)[1].endswith(text)

    with release.server(tmp_path, *arguments):
        wait_for(lambda: message("label `owner` is missing"), what="the rule refuses a Deployment")
        made = admin.create(pods, pod, dryRun="All")
        assert made["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}

        # caBundle follows another authority.
        before = authorities(admin, VALIDATING)
        secret = f"/api/v1/namespaces/{namespace}/secrets/fleethook-certs"
        broken = {name: base64.b64encode(b"broken").decode() for name in release.secret()["data"]}
        admin.merge(secret, {"data": broken})
        for collection in (VALIDATING, MUTATING):
            wait_for(lambda c=collection: authorities(admin, c).isdisjoint(before), what="caBundle follows")  # type: ignore[misc]
        wait_for(lambda: message("label `owner` is missing"), what="the rule refuses with the new authority")

        # An upgrade changes the ConfigMap, and the kubelet the files.
        release.values["engines"]["rules"]["files"] = {"rules.py": RULES.replace("is missing", "is not there")}
        release.helm("upgrade", "fleethook", str(CHART), "--values", "-")
        mount(admin, helm, release, tmp_path)
        wait_for(lambda: message("label `owner` is not there"), what="the new rule decides")

    # An outage: `Fail` refuses, and `Ignore` skips the mutation.
    assert "failed calling webhook" in create(admin, team)[1]
    assert "seccompProfile" not in admin.create(pods, pod, dryRun="All")["spec"].get("securityContext", {})
    # Each account may read the discovery.
    used = read_used_rights(plane, release.account) - {("", "", "get")}
    assert used <= read_granted_rights(helm, release)
