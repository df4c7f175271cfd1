"""After a rollback, an uninstall or `fleethook policies remove`, no policy of an overrider is left."""

from functools import partial
from pathlib import Path

import pytest

from tests.builders import entry
from tests.cli.commands import invoke
from tests.e2e.chart import CHART, Release
from tests.e2e.cluster import Api, ControlPlane, RefusedError, control_plane
from tests.e2e.conftest import install_crds, new_namespace
from tests.e2e.fleet import RBAC, WEBHOOKS, is_trusted
from tests.e2e.installation import Installation
from tests.e2e.subject import TO_2, Subject
from tests.e2e.test_policy_modes import AUTO, POOLS, WEBHOOK, applied, create, is_exempt, subject, wait_for_policy
from tests.e2e.workloads import images
from tests.waiting import wait_for

__all__ = ["subject"]

OWNER = f"{RBAC}/clusterroles/fleethook-policies"


def kubeconfig_of(plane: ControlPlane) -> Path:
    pair = plane.admin
    return plane.kubeconfig("remover", {"client-certificate": str(pair.certificate), "client-key": str(pair.key)})


def test_a_rollback_and_an_uninstall_delete_the_policies(
    binaries: Path, controller_manager: Path, helm: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "plane"
    directory.mkdir()
    with control_plane(binaries, directory) as plane:
        plane.start_controller_manager(controller_manager, "garbage-collector-controller")
        admin = plane.api()
        install_crds(admin)
        subject = Subject(admin, new_namespace(admin), POOLS)
        release = Release(helm, plane, kubeconfig_of(plane), new_namespace(admin))
        # Like an earlier version, this revision has no role for policies.
        release.values["controller"] = {"overriderMode": "webhook"}
        release.install()
        release.values["controller"] = {"overriderMode": "auto"}
        for command, revision in (("rollback", "1"), ("uninstall", "")):
            release.helm("upgrade", "fleethook", str(CHART), "--values", "-")
            with release.server(tmp_path) as server:
                wait_for(partial(is_trusted, admin, server), what="the apiserver trusts the server")
                subject.override(entry("*", items=TO_2))
                wait_for_policy(admin, subject)
                # The leader runs on until Kubernetes stops it, and must not apply policies again.
                release.helm(command, "fleethook", *filter(None, [revision]))
                wait_for(lambda: applied(admin, subject) == [], what=f"the {command} deletes the policies")
                assert admin.call("GET", OWNER)[0] == 404
                if command == "rollback":
                    wait_for(lambda: subject.condition("Policy")[1] == "NotApplied", what="the status says why")
                    assert "fleethook-policies" in subject.condition("Policy")[2]
                    wait_for(lambda: not is_exempt(admin, subject), what="the webhook gets the workloads")
                    assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"
            assert applied(admin, subject) == []
        assert admin.call("GET", f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook")[0] == 404


def test_the_command_makes_the_webhook_responsible_and_deletes_the_policies(
    admin: Api, plane: ControlPlane, subject: Subject, installation: Installation
) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
    assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"
    before = applied(admin, subject)
    arguments = ["policies", "remove", "--kubeconfig", str(kubeconfig_of(plane))]
    result = invoke(arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"the webhook renders the workloads of YurtAppSet {subject.namespace}/demo" in result.stdout
    # Other tests may have left policies of other namespaces, which the command deletes, too.
    lines = [line for line in result.stdout.splitlines() if line.startswith("deleted") and subject.namespace in line]
    assert [line.split()[1] for line in lines] == [path.removeprefix(f"{WEBHOOKS}/") for path in before]
    assert applied(admin, subject) == []
    assert not is_exempt(admin, subject)
    with pytest.raises(RefusedError, match="failed calling webhook"):
        create(admin, subject, "beijing")
    again = invoke(arguments)
    assert (again.exit_code, again.stdout) == (0, "no policies found\n")
    with installation.up(**WEBHOOK):
        assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"
