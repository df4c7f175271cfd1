"""CRDs for the instances of a cluster, by their Secrets, with a real apiserver: the command and the controller."""

import base64
import json
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Result, invoke
from tests.e2e.cluster import CRDS, Api, ControlPlane, is_established
from tests.e2e.crds_controller import ControllerProcess, KarmadaFactory, http, run_crds_controller
from tests.e2e.instance_secrets import admin_config, create_secrets
from tests.e2e.test_crds_apply import Release
from tests.engines.crds.origin import Origin, tarball
from tests.engines.crds.tarballs import build
from tests.waiting import wait_for


@pytest.fixture
def release() -> Release:
    return Release(uuid.uuid4().hex[:6] + "s")


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address without a server."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def give(plane: ControlPlane, admin: Api, namespace: str) -> Callable[..., None]:
    """Creates the Secrets of an instance, for the API server of the tests if no other is named."""

    def give(name: str, **access: Any) -> None:
        config = admin_config(plane, **access)
        create_secrets(admin, namespace, name, config=config, authority=plane.authority.certificate)

    return give


def conversion(plane: ControlPlane, namespace: str, name: str = "demo") -> dict[str, Any]:
    ca_bundle = base64.b64encode(plane.authority.certificate.read_bytes()).decode()
    return {"url": f"https://{name}-karmada-webhook.{namespace}.svc:443/convert", "caBundle": ca_bundle}


def client_config(admin: Api, release: Release) -> Any:
    return admin[f"{CRDS}/{release.bindings}"]["spec"]["conversion"]["webhook"]["clientConfig"]


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(account: Path, tmp_path: Path) -> Callable[..., Result]:
    def run(*arguments: object, code: int = 0) -> Result:
        command = ["crds", "--data-dir", tmp_path / "data", "apply", "--kubeconfig", account, *arguments]
        result = invoke(list(map(str, command)))
        assert result.exit_code == code, result.output
        for text in (result.stdout, result.stderr):
            assert "PRIVATE KEY" not in text
            assert "client-key-data" not in text
        return result

    return run


def test_an_instance_is_applied_to_by_its_secrets(
    run: Any,
    make: KarmadaFactory,
    give: Any,
    admin: Api,
    plane: ControlPlane,
    namespace: str,
    origin: Origin,
    release: Release,
) -> None:
    origin.answer = tarball(build(release.members()))
    make(http(origin))
    give("demo")
    shown = run("--instance", f"{namespace}/demo")
    assert shown.stdout == f"applied  {namespace}/demo  5 CRDs (5 created)\n"
    assert f"{namespace}/demo: added    {release.bindings}\n" in shown.stderr
    assert all(is_established(admin, name) for name in release.names)
    assert client_config(admin, release) == conversion(plane, namespace)
    (found,) = json.loads(run("--instance", f"{namespace}/demo", "-o", "json").stdout)
    assert (found["instance"], found["result"], found["exit"]) == (f"{namespace}/demo", "applied", 0)
    assert {one["result"] for one in found["crds"]} == {"unchanged"}


def test_all_instances_are_tried_and_the_worst_decides(
    run: Any, make: KarmadaFactory, give: Any, admin: Api, namespace: str, origin: Origin, release: Release, nobody: str
) -> None:
    origin.answer = tarball(build(release.members()))
    for name in ("good", "dead", "bare", "asleep"):
        make(http(origin), name=name, **({"suspend": True} if name == "asleep" else {}))
    give("good")
    give("dead", server=nobody)
    shown = run("--all", code=20)
    lines = {line.split()[1]: line for line in shown.stdout.splitlines() if namespace in line}
    assert lines[f"{namespace}/good"].endswith("5 CRDs (5 created)")
    assert lines[f"{namespace}/dead"].startswith(f"failed   {namespace}/dead  customresourcedefinitions: {nobody}: ")
    missing = f"there is no Secret {namespace}/bare-karmada-admin-config"
    assert lines[f"{namespace}/bare"] == f"failed   {namespace}/bare  {missing}"
    assert lines[f"{namespace}/asleep"] == f"skipped  {namespace}/asleep  the Karmada is suspended"
    assert len(lines) == 4
    assert is_established(admin, release.bindings)
    # All use the same tarball, which was requested once.
    assert len(origin.asked) == 1


def test_a_ca_and_a_name_that_are_given_come_first(
    run: Any,
    make: KarmadaFactory,
    give: Any,
    admin: Api,
    plane: ControlPlane,
    namespace: str,
    origin: Origin,
    release: Release,
) -> None:
    origin.answer = tarball(build(release.members()))
    make(http(origin))
    give("demo")
    ca = plane.webhook_authority.certificate
    run("--instance", f"{namespace}/demo", "--ca-file", ca, "--name", "other", "--namespace", "elsewhere")
    found = client_config(admin, release)
    assert found["url"] == "https://other-karmada-webhook.elsewhere.svc:443/convert"
    assert found["caBundle"] == base64.b64encode(ca.read_bytes()).decode()


def test_a_dry_run_changes_nothing_and_another_tarball_may_be_given(
    run: Any,
    make: KarmadaFactory,
    give: Any,
    admin: Api,
    namespace: str,
    origin: Origin,
    release: Release,
    tmp_path: Path,
) -> None:
    make(http(origin))
    give("demo")
    (tmp_path / "crds.tar.gz").write_bytes(build(release.members()))
    shown = run("--instance", f"{namespace}/demo", "--tarball", tmp_path / "crds.tar.gz", "--dry-run")
    assert shown.stdout == f"tried    {namespace}/demo  5 CRDs (5 created)\n"
    assert [admin.call("GET", f"{CRDS}/{name}")[0] for name in release.names] == [404] * 5
    assert origin.asked == []


# --- The controller ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process(account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerProcess]:
    # A long lease for slow machines: a second leader would find the tarball in the cache.
    with run_crds_controller(
        account, tmp_path_factory.mktemp("applying"), "--apply", "--lease-duration", "600"
    ) as running:
        yield running


def test_the_controller_applies_when_the_secrets_are_there_and_once(
    process: ControllerProcess, make: KarmadaFactory, give: Any, admin: Api, plane: ControlPlane, namespace: str, origin: Origin,
    release: Release,
) -> None:  # fmt: skip
    origin.answer = tarball(build(release.members()))
    instance = make(http(origin))
    wait_for(lambda: instance.has_condition("CRDsApplied", "False", "AccessInvalid"))
    missing = f"there is no Secret {namespace}/demo-karmada-admin-config"
    assert instance.condition("CRDsApplied")[2] == missing
    assert instance.condition("Ready") == ("False", "Failed", missing)
    assert instance.has_condition("CRDsPrepared", "True", "Downloaded")
    give("demo")
    wait_for(lambda: instance.has_condition("CRDsApplied", "True", "Applied"))
    assert instance.condition("CRDsApplied")[2].endswith(": 5 CRDs (5 created)")
    wait_for(instance.ready)
    assert client_config(admin, release) == conversion(plane, namespace)
    assert ("Normal", "CRDsApplied", 1) in instance.events()
    # The controller applies nothing to a completed instance until its spec changes.
    admin.merge(f"{CRDS}/{release.names[0]}", {"metadata": {"labels": {"a": "b"}}})
    admin.merge(f"{CRDS}/{release.bindings}", {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    admin.merge(instance.path, {"metadata": {"labels": {"touched": "yes"}}})
    other = make(http(origin), name="other")
    wait_for(lambda: other.has_condition("CRDsApplied", "False", "AccessInvalid"))
    assert admin[f"{CRDS}/{release.bindings}"]["spec"]["conversion"] == {"strategy": "None"}
    instance.change(crdTarball=http(origin, timeoutSeconds=99))
    wait_for(lambda: instance.condition("CRDsApplied")[2].endswith(": 5 CRDs (1 configured, 4 unchanged)"))
    # The controller sent one request to the origin, and retried only the apply.
    assert len(origin.asked) == 1
    shown = [process.log.read_text(), process.get("/metrics")[1], str(instance.stored), str(instance.events())]
    assert not any("PRIVATE KEY" in text or "the key of the CA" in text for text in shown)


def test_the_controller_keeps_stored_versions(
    process: ControllerProcess, make: KarmadaFactory, give: Any, admin: Api, origin: Origin, release: Release
) -> None:
    origin.answer = tarball(build(release.members("v1alpha1", "v1alpha2")))
    give("demo")
    instance = make({**http(origin), "crdDownloadPolicy": "Always"})
    wait_for(lambda: instance.has_condition("CRDsApplied", "True", "Applied"))
    before = admin[f"{CRDS}/{release.bindings}"]["spec"]["versions"]
    origin.answer = tarball(build(release.members("v1alpha1", "v1beta1")), etag='"v2"')
    instance.change(crdTarball=http(origin, timeoutSeconds=99))
    wait_for(lambda: instance.has_condition("CRDsApplied", "False", "StoredVersionsKept"))
    assert f"({release.bindings}: v1alpha2)" in instance.condition("CRDsApplied")[2]
    assert ("Warning", "CRDsStoredVersionsKept", 1) in instance.events()
    assert admin[f"{CRDS}/{release.bindings}"]["spec"]["versions"] == before


def test_a_server_that_is_away_and_a_kubeconfig_with_a_program_hold_up_no_other(
    process: ControllerProcess,
    make: KarmadaFactory,
    give: Any,
    origin: Origin,
    release: Release,
    nobody: str,
    tmp_path: Path,
) -> None:
    origin.answer = tarball(build(release.members()))
    program = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [f"{tmp_path}/x"]}}
    give("dead", server=nobody)
    give("evil", user=program)
    give("good")
    dead, evil, good = (make(http(origin), name=name) for name in ("dead", "evil", "good"))
    wait_for(lambda: good.has_condition("CRDsApplied", "True", "Applied"))
    wait_for(lambda: dead.has_condition("CRDsApplied", "False", "Unreachable"))
    wait_for(lambda: evil.has_condition("CRDsApplied", "False", "AccessInvalid"))
    assert "exec of its user is not supported" in evil.condition("CRDsApplied")[2]
    assert not (tmp_path / "x").exists()
