"""Replicas that die, are restarted or were not there: nothing is lost and no admission fails."""

import json
import signal
from pathlib import Path

from tests.builders import entry
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import fleet, registered
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.e2e.workloads import images
from tests.serving import Server
from tests.waiting import wait_for


def test_what_happened_while_nobody_controlled_is_found_at_the_start(
    plane: ControlPlane, crds: None, admin: Api, namespace: str, tmp_path: Path
) -> None:
    """Everything at once: a new overrider, an edited workload, an overrider that went; with neither webhook nor leader."""
    others = [f"{namespace}-{number}" for number in range(2)]
    for other in others:
        admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with registered(plane, tmp_path / "first"):
        edited, orphaned, late = (Subject(admin, each, ["hangzhou"]) for each in (namespace, *others))
        edited.override(entry("*", items=TO_2))
        orphaned.override(entry("*", items=TO_2))
        wait_for(lambda: (edited.images(), orphaned.images()) == ({"hangzhou": "nginx:2.0"},) * 2)
    containers = [{"name": "nginx", "image": "edited:9"}]
    admin.merge(edited.paths["hangzhou"], {"spec": {"template": {"spec": {"containers": containers}}}})
    orphaned.delete_override()
    late.override(entry("*", items=TO_3))
    with registered(plane, tmp_path / "second"):
        wait_for(lambda: edited.images() == {"hangzhou": "nginx:2.0"})
        wait_for(lambda: orphaned.images() == {"hangzhou": "nginx:1.0"})
        wait_for(lambda: late.images() == {"hangzhou": "nginx:3.0"})


def touched(server: Server) -> float:
    text = server.request("GET", "/metrics")[1].decode()
    (line,) = (line for line in text.splitlines() if line.startswith("fleethook_controller_touched_total "))
    return float(line.split()[1])


def test_a_leader_killed_in_the_middle_of_500_workloads_is_replaced_and_nothing_is_done_twice(
    plane: ControlPlane, crds: None, admin: Api, namespace: str, tmp_path: Path
) -> None:
    pools = [f"pool-{number}" for number in range(500)]
    with fleet(plane, tmp_path, namespace, replicas=2, FLEETHOOK_CONTROLLER_RATE="100") as replicas:
        subject = Subject(admin, namespace, pools)
        leader = replicas.leader()
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: touched(leader) >= 100)
        replicas.remove(leader)
        leader.process.send_signal(signal.SIGKILL)
        leader.process.wait(timeout=10)
        done = [name for name, found in subject.images().items() if found == "nginx:2.0"]
        assert 100 <= len(done) < 500, "it was in the middle"
        successor = replicas.leader()
        wait_for(lambda: subject.status().get("summary") == "500/500", seconds=60)
        assert touched(successor) <= 500 - len(done)
    stored = [subject.workload(name) for name in pools]
    assert {images(one)["nginx"] for one in stored} == {"nginx:2.0"}
    # Created, rendered once: one change of what it runs.
    assert {one["metadata"]["generation"] for one in stored} == {2}
    assert len({json.dumps(one["spec"]["template"]["spec"], sort_keys=True) for one in stored}) == 1
