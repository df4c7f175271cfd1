"""fleethook doctor on a real apiserver: healthy registrations, and broken ones with their remedies."""

import base64
import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.doctor.doctor import list_rights
from fleethook.cluster.registration.webhook_configurations import URLReference, webhook_configurations
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import DEFINITION_NAME
from tests.cli.commands import invoke
from tests.cli.doctor.test_doctor import allows
from tests.e2e.chart import template
from tests.e2e.cluster import CRDS, Api, ControlPlane, free_port, is_established
from tests.e2e.conftest import kubectl, manifest
from tests.e2e.fleet import NAMESPACE, WEBHOOKS, grant, is_ready, run_registered_server, service_account, unregister
from tests.pki import Authority
from tests.serving import ROOT, Server, serving
from tests.waiting import wait_for

Diagnoses = dict[str, list[dict[str, str]]]
Edit = Callable[[dict[str, Any]], None]
PROBED = "rules.yurtappoverrider.fleethook.io"


@pytest.fixture
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.kubeconfig("doctor")


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has not registered itself, so that it repairs no fault of these tests."""
    arguments = ("--kubeconfig", str(service_account(plane)), "--namespace", NAMESPACE)
    with serving(tmp_path_factory.mktemp("doctor"), *arguments, manifests=None) as running:
        wait_for(lambda: is_ready(running), what="the server is ready")
        yield running


class Registration:
    """Writes the webhook configurations of a server, with faults."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin

    def write(self, reference: Any, authority: bytes, *, edit: Edit = lambda _: None, leave_out: str = "") -> None:
        for configuration in webhook_configurations(reference, exempt_namespaces=[NAMESPACE], selecting=False):
            webhooks = [one for one in configuration["webhooks"] if one["name"] != leave_out]
            for webhook in webhooks:
                if authority:
                    webhook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
                edit(webhook)
            path = f"{WEBHOOKS}/{configuration['kind'].lower()}s"
            self._admin.create(path, {**configuration, "webhooks": webhooks})

    def write_for(self, server: Server, **faults: Any) -> None:
        self.write(url_of(server.port), server.authority.read_bytes(), **faults)


@pytest.fixture
def registration(admin: Api) -> Iterator[Registration]:
    yield Registration(admin)
    unregister(admin)


def url_of(port: int) -> URLReference:
    return URLReference(f"https://127.0.0.1:{port}")


def examine(kubeconfig: Path, *arguments: str) -> tuple[int, Diagnoses]:
    """Run the command; return its exit code and the findings by check."""
    result = invoke(["doctor", "--kubeconfig", str(kubeconfig), "--output", "json", *arguments])
    assert result.stderr == ""
    found: Diagnoses = {}
    for one in json.loads(result.stdout):
        found.setdefault(one["check"], []).append(one)
    return result.exit_code, found


def examine_until_reached(part: str, kubeconfig: Path, *arguments: str) -> tuple[int, Diagnoses, dict[str, str]]:
    """Examine until the apiserver uses the new configuration: until the finding about overriders has a text."""
    last: list[Any] = []

    def has_text() -> bool:
        code, found = examine(kubeconfig, *arguments)
        findings = [*found.get("outage", ()), *found["reachability"]]
        about = [one for one in findings if "overrider" in one["text"] and part in one["text"]]
        assert about, findings
        last[:] = [code, found, about[0]]
        return True

    wait_for(has_text, what=f"the apiserver answers with {part!r}")
    code, found, about = last
    return code, found, about


def levels(found: Diagnoses) -> dict[str, list[str]]:
    return {check: [one["level"] for one in rows if one["level"] != "note"] for check, rows in found.items()}


def test_a_healthy_registration_has_no_fault(
    plane: ControlPlane, crds: None, tmp_path: Path, admin: Api, namespace: str, kubeconfig: Path
) -> None:
    arguments = ("-n", namespace, "--strict")
    with run_registered_server(plane, tmp_path):
        code, found, about = examine_until_reached("refused the object of a dry run", kubeconfig, *arguments)
        text = invoke(["doctor", "--kubeconfig", str(kubeconfig), *arguments])
    assert code == 0
    assert {level for rows in levels(found).values() for level in rows} == {"ok"}
    assert set(found) >= {
        "versions",
        "registration",
        "failure-policy",
        "reachability",
    }
    assert (about["level"], PROBED in about["text"], about["remedy"]) == ("ok", True, "")
    assert text.stdout.splitlines()[-1] == "0 errors, 0 warnings"
    assert "ok       registration: 15 webhooks of crds, interpret, overrider in " in text.stdout
    stored = admin[f"/apis/apps.openyurt.io/v1alpha1/namespaces/{namespace}/yurtappoverriders"]["items"]
    assert stored == []


def test_the_remedy_for_openyurt_s_definition_installs_ours(
    binaries: Path, registration: Registration, server: Server, admin: Api, kubeconfig: Path
) -> None:
    """OpenYurt's definition prunes members; a server that registers itself keeps the definition of another installer."""
    registration.write_for(server)
    path = f"{CRDS}/{DEFINITION_NAME}"
    definition = {name: value for name, value in admin[path].items() if name != "status"}
    poor = copy.deepcopy(definition)
    for name in ("resourceVersion", "uid", "managedFields", "generation", "creationTimestamp"):
        poor["metadata"].pop(name)
    items = poor["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["entries"]["items"]["properties"]
    del items["items"]["items"]["properties"]["replicas"]
    # kubectl, as Helm and OpenYurt's installer do, owns the fields of a definition that it created.
    kubectl(binaries, kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest(poor))
    _, found = examine(kubeconfig)
    (one,) = (one for one in found["versions"] if one["level"] == "warning")
    assert "silently drops entries[].items[].replicas, as OpenYurt's own does" in one["text"]
    (command,) = re.findall(r"`kubectl (.+)`", one["remedy"])
    kubectl(binaries, kubeconfig, *command.replace("schemas/", f"{ROOT}/schemas/").split())
    _, found = examine(kubeconfig)
    assert [one["level"] for one in found["versions"]] == ["ok"]
    wait_for(lambda: is_established(admin, DEFINITION_NAME), what="the definition is established")


def test_without_a_registration_the_remedy_is_to_install(plane: ControlPlane, kubeconfig: Path) -> None:
    unregister(plane.api())
    code, found = examine(kubeconfig)
    assert (code, levels(found)["registration"]) == (1, ["error"])
    assert "install the chart" in found["registration"][0]["remedy"]
    assert "reachability" not in found


def test_a_server_that_is_gone_is_unreachable(
    registration: Registration, server: Server, namespace: str, kubeconfig: Path
) -> None:
    registration.write(url_of(free_port()), server.authority.read_bytes())
    code, _, about = examine_until_reached("connection refused", kubeconfig, "-n", namespace)
    assert (code, about["level"]) == (1, "error")
    assert about["remedy"].startswith("start the server")


def test_a_wrong_authority_is_found(
    registration: Registration, server: Server, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other").certificate.read_bytes()
    registration.write(url_of(server.port), other)
    code, _, about = examine_until_reached("unknown authority", kubeconfig, "-n", namespace)
    assert (code, about["level"]) == (1, "error")
    assert "caBundle" in about["remedy"]


def test_failure_policy_ignore_does_not_hide_a_server_that_is_gone(
    registration: Registration, server: Server, namespace: str, kubeconfig: Path
) -> None:
    def ignore(webhook: dict[str, Any]) -> None:
        webhook["failurePolicy"] = "Ignore"

    registration.write(url_of(free_port()), server.authority.read_bytes(), edit=ignore)
    code, found, about = examine_until_reached("did not send", kubeconfig, "-n", namespace)
    assert (code, about["level"], levels(found)["failure-policy"]) == (1, "error", ["warning"])


def test_checks_without_rights_are_unknown(
    plane: ControlPlane, registration: Registration, server: Server, admin: Api, kubeconfig: Path
) -> None:
    registration.write_for(server)
    reader = plane.kubeconfig("reader", plane.authority.issue("doctor-reader"))
    result = invoke(["doctor", "--kubeconfig", str(reader)])
    assert (result.exit_code, "mutatingwebhookconfigurations" in result.stderr) == (2, True)
    resources = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    rules = [{"apiGroups": ["admissionregistration.k8s.io"], "resources": resources, "verbs": ["list"]}]
    grant(admin, "doctor-reader", rules, {"kind": "User", "name": "doctor-reader"})

    def has_rights() -> bool:
        return invoke(["doctor", "--kubeconfig", str(reader)]).exit_code == 0

    wait_for(has_rights, what="the apiserver knows the new role")
    _, found = examine(reader)
    # Without the right to create objects, the command calls the URL.
    assert {one["level"] for one in found["reachability"]} == {"ok", "note"}
    assert all(one["remedy"] for one in found["reachability"] if one["level"] != "ok")
    printed = invoke(["doctor", "--kubeconfig", str(reader), "--strict"])
    assert (printed.exit_code, printed.stdout.splitlines()[-1]) == (1, "0 errors, 0 warnings, 1 not examined")


def test_the_roles_of_the_chart_have_the_rights_that_are_checked(helm: Path) -> None:
    engines = {"overrider", "interpret", "crds"}
    documents = template(helm, {"engines": {engine: {"enabled": True} for engine in engines}})
    rules = [rule for one in documents if one["kind"] in ("ClusterRole", "Role") for rule in one["rules"]]
    assert [one for one in list_rights(engines) if not allows(rules, one)] == []
