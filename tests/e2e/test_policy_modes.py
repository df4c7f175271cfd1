"""Overriders as MutatingAdmissionPolicies on a real apiserver, with the webhook registered and with failurePolicy Fail."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.engines.overrider.policies.mode import COMPILED_LABEL, MODE_ANNOTATION
from tests.builders import entry
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.conftest import install_crds, new_namespace
from tests.e2e.fleet import ACCOUNT, NAMESPACE, WEBHOOKS, fleet
from tests.e2e.installation import Installation, selection
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.e2e.workloads import images, path_of, workload_of
from tests.serving import Server
from tests.waiting import wait_for

AUTO = {"FLEETHOOK_OVERRIDER_MODE": "auto"}
WEBHOOK = {"FLEETHOOK_OVERRIDER_MODE": "webhook"}
POOLS = ["beijing", "hangzhou"]
BINDINGS = f"{WEBHOOKS}/mutatingadmissionpolicybindings"
WITHOUT_API = (
    (
        "--runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false,"
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false"
    ),
    "--disable-admission-plugins=MutatingAdmissionPolicy",
)
POLICIES = f"{WEBHOOKS}/mutatingadmissionpolicies"


@pytest.fixture
def subject(admin: Api, crds: None, namespace: str) -> Iterator[Subject]:
    made = Subject(admin, namespace, POOLS)
    yield made
    admin.call("DELETE", made.rule)
    for item in applied(admin, made):
        admin.call("DELETE", item)


def applied(admin: Api, subject: Subject) -> list[str]:
    """Return the paths of the policies and bindings for a namespace."""
    return [
        f"{place}/{item['metadata']['name']}"
        for place in (BINDINGS, POLICIES)
        for item in admin[place]["items"]
        if is_about(item, subject)
    ]


def is_about(item: dict[str, Any], subject: Subject) -> bool:
    """Return whether a policy or binding is that of an overrider in the namespace of a subject."""
    named: str = item["metadata"]["annotations"].get("fleethook.io/overrider", "")
    return named.startswith(f"{subject.namespace}/")


def is_exempt(admin: Api, subject: Subject) -> bool:
    name = SubjectName(subject.namespace, subject.stored["kind"], "demo")
    return name in selection(admin).covered


def create(admin: Api, subject: Subject, pool: str) -> dict[str, Any]:
    made = workload_of(subject.stored, pool)
    # OpenYurt's controller sets it even for a pool without a patch (v1.4, workloadcontroller/util.go).
    made["metadata"]["annotations"] = {"apps.openyurt.io/patch": ""}
    answer: dict[str, Any] = admin.create(path_of(made), made)
    return answer


def list_policy_requests(plane: ControlPlane) -> list[tuple[str, str, str, int]]:
    """Return the requests about policies, and the dry runs, that servers have sent; a watch may begin again."""
    requests = plane.read_audit_log(f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
    return [
        one
        for one in requests
        if ("mutatingadmission" in one[1] and one[2] not in ("list", "watch")) or one[::2] == ("apps", "create")
    ]


def count_passes(server: Server) -> int:
    """Return how often the leader has reconciled a subject."""
    found = re.search(
        rb"^fleethook_controller_reconciled_total (\d+)", server.request("GET", "/metrics")[1], re.MULTILINE
    )
    return int(found[1]) if found else 0


def wait_for_policy(admin: Api, subject: Subject) -> None:
    wait_for(lambda: is_exempt(admin, subject), what=f"the policy acts: {subject.status()}")
    wait_for(lambda: subject.condition("Policy")[:2] == ("True", "Active"), what="the status reports the policy")


def test_without_any_process_of_fleethook_100_workloads_are_right_and_none_is_blocked(
    admin: Api, subject: Subject, installation: Installation
) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: set(subject.images().values()) == {"nginx:2.0"}, what="the workloads are rendered")
        wait_for_policy(admin, subject)
    # The webhook that fails closed gets none of its workloads. Other tests may have left subjects that it gets.
    assert SubjectName(subject.namespace, subject.stored["kind"], "demo") not in selection(admin).closed
    with ThreadPoolExecutor(8) as executor:
        made = list(executor.map(lambda n: create(admin, subject, POOLS[n % 2]), range(100)))
    assert [images(one)["nginx"] for one in made] == ["nginx:2.0"] * 100
    drifted = made[0]
    drifted["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:drifted"
    assert images(admin.replace(path_of(drifted), drifted))["nginx"] == "nginx:2.0"
    # The workloads that the webhook has rendered have the same hash, so the leader has nothing to do.
    hashes = [one["metadata"]["annotations"]["fleethook.io/rendered"] for one in made]
    assert hashes == [subject.workload(pool)["metadata"]["annotations"]["fleethook.io/rendered"] for pool in POOLS] * 50


def test_without_any_process_of_fleethook_replicas_are_left_to_another_owner(
    admin: Api, subject: Subject, installation: Installation
) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=[*TO_2, {"initialReplicas": 5}]))
        wait_for(lambda: set(subject.images().values()) == {"nginx:2.0"}, what="the workloads are rendered")
        wait_for_policy(admin, subject)
    made = create(admin, subject, "beijing")
    assert made["spec"]["replicas"] == 5
    admin.merge(f"{path_of(made)}/scale", {"spec": {"replicas": 9}})
    written = dict(admin[path_of(made)])
    # The template has two replicas, which OpenYurt's controller writes with each revision.
    written["spec"] |= {"replicas": 2, "minReadySeconds": 7}
    stored = admin.replace(path_of(made), written)
    assert (stored["spec"]["replicas"], stored["spec"]["minReadySeconds"]) == (9, 7)
    stored["spec"]["replicas"] = 4
    assert admin.replace(path_of(made), stored)["spec"]["replicas"] == 4


def test_an_edit_takes_effect_for_the_next_workload(admin: Api, subject: Subject, installation: Installation) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
        for items, expected in ((TO_3, "nginx:3.0"), (TO_2, "nginx:2.0"), (TO_3, "nginx:3.0")):
            subject.override(entry("*", items=items))
            assert images(create(admin, subject, "beijing"))["nginx"] == expected
        wait_for(lambda: set(subject.images().values()) == {"nginx:3.0"}, what="the workloads are rendered")
        wait_for_policy(admin, subject)
    assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:3.0"


def test_if_an_administrator_deletes_the_policies_the_webhook_renders_until_they_are_back(
    admin: Api, subject: Subject, installation: Installation
) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
        before = applied(admin, subject)
        for path in before:
            admin.delete(path)
        assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"
        wait_for(lambda: applied(admin, subject) == before, what="the leader applies the policies again")


def test_the_deletion_of_the_overrider_undoes_it_and_removes_its_policies(
    admin: Api, subject: Subject, installation: Installation
) -> None:
    with installation.up(**AUTO):
        before = subject.images()
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
        made = create(admin, subject, "beijing")
        assert images(made)["nginx"] == "nginx:2.0"
        subject.delete_override()
        wait_for(lambda: subject.images() == before, what="the override is undone")
        wait_for(lambda: images(admin[path_of(made)]) == {"nginx": before["beijing"]}, what="so is the policy's")
        wait_for(lambda: applied(admin, subject) == [], what="the policies are deleted")
        wait_for(lambda: not is_exempt(admin, subject), what="the exemption ends")
        assert "fleethook.io/rendered" not in admin[path_of(made)]["metadata"].get("annotations", {})


def test_the_annotation_of_an_overrider_wins_over_the_setting(
    admin: Api, subject: Subject, installation: Installation
) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
        admin.merge(subject.rule, {"metadata": {"annotations": {MODE_ANNOTATION: "webhook"}}})
        wait_for(lambda: subject.condition("Policy")[1] == "WebhookRequested", what="the status follows")
        wait_for(lambda: applied(admin, subject) == [], what="the policies are deleted")
        assert not is_exempt(admin, subject)
        assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"


def test_an_entry_that_does_not_compile_stays_with_the_webhook_and_the_status_says_why(
    admin: Api, subject: Subject, installation: Installation
) -> None:
    patch = {"operation": "add", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Always"}
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2, patches=[patch]))
        wait_for(lambda: subject.condition("Policy")[1] == "DoesNotCompile", what="the status names the entry")
        assert "entries[0].patches[0]" in subject.condition("Policy")[2]
        assert applied(admin, subject) == []
        assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"


def test_overriders_beyond_the_limit_stay_with_the_webhook_until_there_is_room(binaries: Path, tmp_path: Path) -> None:
    # Overriders that other tests have left would take the room.
    with control_plane(binaries, tmp_path) as plane:
        admin = plane.api()
        install_crds(admin)
        first, second = (Subject(admin, new_namespace(admin), POOLS) for _ in range(2))
        with Installation(plane, tmp_path).up(**AUTO, FLEETHOOK_POLICY_LIMIT="1"):
            first.override(entry("*", items=TO_2))
            wait_for_policy(admin, first)
            second.override(entry("*", items=TO_2))
            wait_for(lambda: second.condition("Policy")[:2] == ("False", "LimitReached"), what="there is no room")
            assert images(create(admin, second, "beijing"))["nginx"] == "nginx:2.0"
            assert applied(admin, second) == []
            first.delete_override()
            wait_for_policy(admin, second)
            assert applied(admin, first) == []


def test_policies_that_nobody_changes_cost_no_request(binaries: Path, tmp_path: Path) -> None:
    # Policies of overriders that other tests have left would cost some.
    with control_plane(binaries, tmp_path) as plane:
        admin = plane.api()
        install_crds(admin)
        subject = Subject(admin, new_namespace(admin), POOLS)
        with Installation(plane, tmp_path).up(**AUTO, FLEETHOOK_RESYNC_INTERVAL="2") as server:
            subject.override(entry("*", items=TO_2))
            wait_for_policy(admin, subject)
            before, passes = list_policy_requests(plane), count_passes(server)
            wait_for(lambda: count_passes(server) > passes + 3, what="the leader looks at the subject again")
            assert list_policy_requests(plane) == before


def test_a_new_leader_keeps_policies_and_deletes_those_of_overriders_that_are_gone(
    admin: Api, plane: ControlPlane, subject: Subject, namespace: str, tmp_path: Path
) -> None:
    with fleet(plane, tmp_path, namespace, replicas=2, **AUTO) as replicas:
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
        before = applied(admin, subject)
        gone = admin[before[0]]
        gone["metadata"] = {
            "name": f"gone-{namespace}",
            "labels": {COMPILED_LABEL: "00000000"},
            "annotations": {"fleethook.io/overrider": f"{namespace}/gone"},
        }
        admin.create(BINDINGS, gone)
        leader = replicas.leader()
        replicas.remove(leader)
        leader.stop()
        replicas.leader()
        assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"
        wait_for(lambda: applied(admin, subject) == before, what="only the policies of the overrider are left")
        wait_for_policy(admin, subject)


def test_policies_of_an_earlier_setting_are_deleted(admin: Api, subject: Subject, installation: Installation) -> None:
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
    with installation.up(**WEBHOOK):
        wait_for(lambda: applied(admin, subject) == [], what="mode webhook deletes the policies")
        wait_for(lambda: not is_exempt(admin, subject), what="the webhook gets the workloads")
        assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"


def test_after_a_downgrade_of_the_apiserver_the_webhook_renders(binaries: Path, tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    directory.mkdir()
    with control_plane(binaries, directory) as plane:
        admin = plane.api()
        install_crds(admin)
        subject = Subject(admin, new_namespace(admin), POOLS)
        with Installation(plane, tmp_path).up(**AUTO):
            subject.override(entry("*", items=TO_2))
            wait_for_policy(admin, subject)
            plane.restart_apiserver(*WITHOUT_API)
            assert admin.call("GET", POLICIES)[0] == 404
            wait_for(lambda: subject.condition("Policy")[1] == "NotServed", what="the status follows")
            assert images(create(admin, subject, "beijing"))["nginx"] == "nginx:2.0"
            wait_for(lambda: not is_exempt(admin, subject), what="the exemption ends")
            plane.restart_apiserver()
            wait_for_policy(admin, subject)
