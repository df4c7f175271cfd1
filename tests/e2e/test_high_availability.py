"""Replicas that crash, restart or start late: nothing is lost and no admission fails."""

import itertools
import json
import signal
import threading
from pathlib import Path
from typing import Any, Self

from tests.builders import entry
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import expire_lease, fleet, is_ready, run_registered_server, service_account
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.e2e.workloads import images, path_of, workload_of
from tests.other_constants import constants
from tests.serving import EXAMPLES, MUTATE, REVIEW, Server, serving
from tests.waiting import NET, wait_for


def test_changes_without_a_controller_are_found_at_the_start(
    plane: ControlPlane, crds: None, admin: Api, namespace: str, tmp_path: Path
) -> None:
    """A new overrider, an edited workload and a deleted overrider, with neither webhook nor leader."""
    others = [f"{namespace}-{number}" for number in range(2)]
    for other in others:
        admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with run_registered_server(plane, tmp_path / "first"):
        edited, orphaned, late = (Subject(admin, each, ["hangzhou"]) for each in (namespace, *others))
        edited.override(entry("*", items=TO_2))
        orphaned.override(entry("*", items=TO_2))
        wait_for(lambda: (edited.images(), orphaned.images()) == ({"hangzhou": "nginx:2.0"},) * 2)
    containers = [{"name": "nginx", "image": "edited:9"}]
    admin.merge(edited.paths["hangzhou"], {"spec": {"template": {"spec": {"containers": containers}}}})
    orphaned.delete_override()
    late.override(entry("*", items=TO_3))
    with run_registered_server(plane, tmp_path / "second"):
        wait_for(lambda: edited.images() == {"hangzhou": "nginx:2.0"})
        wait_for(lambda: orphaned.images() == {"hangzhou": "nginx:1.0"})
        wait_for(lambda: late.images() == {"hangzhou": "nginx:3.0"})


def count_touched(server: Server) -> float:
    text = server.request("GET", "/metrics")[1].decode()
    (line,) = (line for line in text.splitlines() if line.startswith("fleethook_controller_touched_total "))
    return float(line.split()[1])


def test_a_leader_killed_in_the_middle_of_500_workloads_is_replaced_and_nothing_is_done_twice(
    plane: ControlPlane, crds: None, admin: Api, namespace: str, tmp_path: Path
) -> None:
    pools = [f"pool-{number}" for number in range(500)]
    # Ten seconds of work, and a lease that outlives them, so that a busy machine also reaches the middle.
    with fleet(plane, tmp_path, namespace, replicas=2, FLEETHOOK_LEASE_DURATION="15") as replicas:
        subject = Subject(admin, namespace, pools)
        leader = replicas.leader()
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: count_touched(leader) >= 50)
        replicas.remove(leader)
        leader.process.send_signal(signal.SIGKILL)
        leader.process.wait(timeout=NET)
        expire_lease(admin, namespace)
        # One list, because the next leader may start while 500 objects are read one by one.
        found = admin[f"/apis/apps/v1/namespaces/{namespace}/deployments"]["items"]
        done = [one for one in found if images(one) == {"nginx": "nginx:2.0"}]
        # The leader touches ten at a time; those in progress may not be written when it is killed.
        assert 40 <= len(done) < 500, "it was in the middle"
        successor = replicas.leader()
        wait_for(lambda: subject.status().get("summary") == "500/500")
        assert count_touched(successor) <= 500 - len(done)
    stored = [subject.workload(name) for name in pools]
    assert {images(one)["nginx"] for one in stored} == {"nginx:2.0"}
    # Created, then rendered once: one change of the pod template.
    assert {one["metadata"]["generation"] for one in stored} == {2}
    assert len({json.dumps(one["spec"]["template"]["spec"], sort_keys=True) for one in stored}) == 1


class Writers:
    """Constant load: threads that create and change workloads, each of which the apiserver sends to the fleet."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._stop = threading.Event()
        self.written = 0
        self.refused: list[Any] = []
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._write) for _ in range(4)]

    def _write(self) -> None:
        admin = self._subject.admin
        while not self._stop.is_set():
            made = workload_of(self._subject.stored, "hangzhou")
            path = path_of(made)
            # Kubernetes before 1.31 answers 409 if a generated name exists, which is likely after some thousand.
            made["metadata"]["name"] = f"writer-{next(self._numbers)}"
            status, created, _ = admin.call("POST", path, made)
            if status != 201 or images(created) != {"nginx": "nginx:2.0"}:
                self.refused.append(created)
                continue
            edit = {"metadata": {"labels": {"edited": "yes"}}}
            status, edited, _ = admin.call("PATCH", path_of(created), edit, content_type="application/merge-patch+json")
            if status != 200:
                self.refused.append(edited)
            self.written += 2

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=NET)


def test_a_rolling_restart_under_constant_load_fails_no_admission(
    plane: ControlPlane, crds: None, admin: Api, namespace: str, tmp_path: Path
) -> None:
    with fleet(plane, tmp_path, namespace, replicas=2, FLEETHOOK_DRAIN_DELAY="10") as replicas:
        subject = Subject(admin, namespace, ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: subject.status().get("summary") == "1/1")
        with Writers(subject) as writers:
            for former in list(replicas.servers):
                written = writers.written
                wait_for(lambda written=written: writers.written > written + 20)
                replicas.start()
                former.process.send_signal(signal.SIGTERM)
                # A Service learns of it later, and sends new connections until then.
                wait_for(lambda former=former: not is_ready(former), what="readiness is off")
                written = writers.written
                wait_for(lambda written=written: writers.written > written + 20)
                replicas.remove(former)
                assert former.process.wait(timeout=NET) == 0
            written = writers.written
            wait_for(lambda: writers.written > written + 20)
        assert writers.refused == []
        assert replicas.leader() in replicas.servers


STALE = b"no update from the apiserver for"


def test_a_replica_without_watch_events_reports_it_and_keeps_answering(
    plane: ControlPlane, crds: None, admin: Api, namespace: str, tmp_path: Path
) -> None:
    environment = {**constants(stale=10), "FLEETHOOK_DISPATCH_OPEN": "loopback"}
    kubeconfig = str(service_account(plane))
    with serving(tmp_path, "--kubeconfig", kubeconfig, manifests=None, **environment) as server:
        wait_for(lambda: is_ready(server))
        plane.kill("kube-apiserver")
        try:
            wait_for(lambda: STALE in server.request("GET", "/readyz")[1])
            assert is_ready(server)
            # Old objects do not tell whose webhooks decide. Each resource gets old at a time of its own.
            review = (EXAMPLES / "testdata" / "review-kcp-widgets.json").read_bytes()

            def read_refusal() -> str:
                refused = json.loads(server.request("POST", "/clusters/ws3/validate", review)[1])["response"]
                assert (refused["allowed"], refused["status"]["code"]) == (False, 403)
                return str(refused["status"]["message"])

            wait_for(lambda: "not ready to handle request: no update of" in read_refusal(), what="dispatch refuses")
            assert server.request("POST", MUTATE, REVIEW.read_bytes())[0] == 200
        finally:
            plane.start_apiserver()

        # The list after the start of the apiserver is an answer about unchanged resources, too.
        wait_for(lambda: STALE not in server.request("GET", "/readyz")[1], what="no resource is stale")
