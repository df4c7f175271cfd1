"""The chart's dispatch engine: its rights, its guard, a kcp elsewhere."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.settings import Settings
from tests.e2e.chart import (
    CHART,
    DISPATCH_ALONE,
    DISPATCH_ELSEWHERE,
    Release,
    Values,
    environment_of,
    kinds,
    pod_of,
    read_granted_rights,
    read_used_rights,
    rights,
    template,
)
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.dispatch_callers import Caller
from tests.e2e.fleet import WEBHOOKS
from tests.engines.dispatch.builders import configuration, review, webhook, widget
from tests.serving import Server
from tests.waiting import wait_for


@pytest.mark.parametrize(("values", "given"), [({}, None), (DISPATCH_ALONE, "false"), (DISPATCH_ELSEWHERE, "true")])
def test_private_webhooks_are_opt_in(helm: Path, values: Values, given: str | None) -> None:
    environment = environment_of(pod_of(template(helm, values))["containers"][0])
    assert environment.get("FLEETHOOK_PRIVATE_WEBHOOKS") == given


def test_settings_are_those_of_the_server(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "resolve": ["hook.default.svc:443:10.0.0.7:8443", "hook.six.svc:443:[fd00::1]"], "dispatch_as_kcp": True,
        "rollout_warning_share": 0.25,
    }  # fmt: skip
    environment = environment_of(pod_of(template(helm, {**DISPATCH_ALONE, "settings": given}))["containers"][0])
    for name in given:
        monkeypatch.setenv(f"FLEETHOOK_{name.upper()}", environment[f"FLEETHOOK_{name.upper()}"])
    settings = Settings()
    assert {name: getattr(settings, name) for name in given} == given


def test_callers_are_named_by_certificates_of_an_authority(helm: Path) -> None:
    engines = {"dispatch": {**DISPATCH_ALONE["engines"]["dispatch"], "callers": ["kube-apiserver", "kcp"]}}
    values = {**DISPATCH_ALONE, "engines": engines, "clientCAConfigMap": "clients"}
    environment = environment_of(pod_of(template(helm, values))["containers"][0])
    assert json.loads(environment["FLEETHOOK_DISPATCH_CALLERS"]) == ["kube-apiserver", "kcp"]
    with pytest.raises(AssertionError, match="verified with clientCAConfigMap"):
        template(helm, {**values, "clientCAConfigMap": ""})


def readme_role() -> Any:
    (text,) = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)
    return yaml.safe_load(text)


def test_the_role_of_the_readme_is_that_of_the_chart(helm: Path) -> None:
    # Only a kcp has the identity of Workspaces, and asks for rights by it.
    of_kcp = {("apiexports", "get"), ("workspaces:HASH", "list"), ("workspaces:HASH", "watch")}
    readme = [right for right in rights([readme_role()]) if right[0][1:] not in of_kcp]
    assert readme == rights(template(helm, DISPATCH_ALONE))


@pytest.mark.parametrize("mode", ["cert-manager", "existing"])
def test_a_server_for_a_kcp_elsewhere_has_no_rights_in_its_own_cluster(helm: Path, mode: str) -> None:
    engines = {
        "overrider": {"enabled": True}, "interpret": {"enabled": True},
        "dispatch": {"enabled": True, "kubeconfigSecret": "kcp", "cacheKubeconfigSecret": "cache"},
    }  # fmt: skip
    documents = template(helm, {"engines": engines, "certificates": {"mode": mode}, "crds": {"subjects": True}})
    assert kinds(documents) - {"Certificate", "Issuer"} == {
        "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount",
    }  # fmt: skip
    pod = pod_of(documents)
    assert pod["automountServiceAccountToken"] is False
    environment = environment_of(pod["containers"][0])
    names = ("IN_CLUSTER", "KCP", "REGISTRATION", "CONTROLLER", "CERT_SECRET")
    assert [environment.get(f"FLEETHOOK_{name}") for name in names] == [None, "true", "off", "false", None]
    for secret, setting in (("kcp", "KUBECONFIG"), ("cache", "KCP_CACHE_KUBECONFIG")):
        (volume,) = (volume for volume in pod["volumes"] if volume.get("secret", {}).get("secretName") == secret)
        (mount,) = (mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == volume["name"])
        assert environment[f"FLEETHOOK_{setting}"] == f"{mount['mountPath']}/kubeconfig"


@contextlib.contextmanager
def dispatching(admin: Api, namespace: str) -> Iterator[str]:
    """A logical cluster with a namespace and a webhook whose selector needs a live read."""
    cluster, path = f"ws-{namespace}", f"{WEBHOOKS}/validatingwebhookconfigurations"
    annotations = {"metadata": {"annotations": {"kcp.io/cluster": cluster}}}
    admin.merge(f"/api/v1/namespaces/{namespace}", annotations)
    hook = webhook(
        url="https://127.0.0.1:1/w",
        namespaceSelector={"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]},
    )
    admin.create(path, configuration(cluster, "validating", hook, name=namespace))
    try:
        yield cluster
    finally:
        admin.delete(f"{path}/{namespace}")


def send_review(server: Server, cluster: str, namespace: str, token: str) -> Any:
    made = widget()
    made["metadata"]["namespace"] = namespace
    body = json.dumps(review(made, userInfo={"username": "guard", "groups": []})).encode()
    status, answer = server.request("POST", f"/clusters/{cluster}/validate", body, Authorization=f"Bearer {token}")
    assert status in (200, 403), answer
    return json.loads(answer).get("response", {})


def send_all_requests(server: Server, admin: Api, cluster: str, namespace: str) -> str:
    """Make a server send all requests of dispatch; return the reason why it could not call the webhook."""
    caller = Caller(admin, namespace)
    caller.permit(cluster)
    token = caller.token()

    def absent() -> bool:
        message = send_review(server, cluster, "no-such-namespace", token).get("status", {}).get("message")
        return bool(message == f'namespaces "no-such-namespace" not found in logical cluster {cluster}')

    wait_for(absent, what="the configuration is known")
    message: str = send_review(server, cluster, namespace, token)["status"]["message"]
    return message


def test_a_dispatching_server_has_only_the_rights_that_it_uses_and_calls_no_private_address(
    helm: Path, plane: ControlPlane, admin: Api, kubeconfig: Path, kcp_kinds: None, namespace: str, tmp_path: Path
) -> None:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values |= DISPATCH_ALONE
    release.install()
    try:
        with dispatching(admin, namespace) as cluster, release.server(tmp_path) as server:
            assert "127.0.0.1 is a private address" in send_all_requests(server, admin, cluster, namespace)
            wait_for(
                lambda: read_used_rights(plane, release.account) == read_granted_rights(helm, release),
                what="all of it is used",
            )
    finally:
        release.helm("uninstall", "fleethook")
