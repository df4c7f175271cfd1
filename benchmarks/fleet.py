"""A fleet of ordinary size on a real apiserver: what one edit of an overrider costs, and what a replica weighs.

    python benchmarks/fleet.py [--subjects 200] [--pools 50]

Every workload is created through the webhook and overridden; then one overrider is edited, one is deleted, the leader is
killed, and ten overriders are edited with something else killed in the middle of the work. Calls are counted from the
apiserver's audit log. Needs the control plane of the end-to-end tests.
"""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.builders import entry, image, overrider, pool, yurt_app_set
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.conftest import install_crds
from tests.e2e.controlplane import build
from tests.e2e.fleet import ACCOUNT, NAMESPACE, OPENYURT, Fleet, fleet
from tests.e2e.workloads import path_of, workload_of
from tests.serving import Server
from tests.waiting import wait_for

USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
WORK = "bench"


def resident(server: Server) -> float:
    """MB of resident memory."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def rule(number: int, tag: str) -> dict[str, Any]:
    made = overrider(entry("*", items=[image("nginx", f"nginx:{tag}")]), name=f"rule-{number}")
    made["metadata"]["namespace"] = WORK
    made["subject"]["name"] = f"demo-{number}"
    return made


def subject(number: int, pools: int) -> dict[str, Any]:
    made = yurt_app_set(pools=[pool(f"pool-{index}") for index in range(pools)])
    made["metadata"] = {"name": f"demo-{number}", "namespace": WORK}
    return made


def fill(admin: Api, subjects: int, pools: int) -> None:
    """Create everything through the webhook."""
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORK}})
    scope = f"{OPENYURT}/namespaces/{WORK}"

    def create(number: int) -> None:
        stored = admin.create(f"{scope}/yurtappsets", subject(number, pools))
        admin.create(f"{scope}/yurtappoverriders", rule(number, "2.0"))
        for index in range(pools):
            made = workload_of(stored, f"pool-{index}")
            admin.create(path_of(made), made)

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(create, range(subjects)))


def calls(plane: ControlPlane) -> Counter[str]:
    return Counter(f"{verb} {resource}" for _, resource, verb, code in plane.audited(USER) if verb != "watch" and code)


def measured(plane: ControlPlane, title: str, what: Callable[[], Any], done: Callable[[], Any]) -> None:
    before = calls(plane)
    started = time.perf_counter()
    what()
    wait_for(done, seconds=300)
    seconds = time.perf_counter() - started
    made = calls(plane) - before
    for routine in ("get leases", "update leases", "get secrets"):
        del made[routine]
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        del made[f"get {kind}"]
    listed = ", ".join(f"{count} {name}" for name, count in made.most_common())
    print(f"| {title} | {seconds:.1f} s | {listed or 'none'} |", flush=True)


def status(admin: Api, number: int) -> dict[str, Any]:
    stored = admin[f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders/rule-{number}"]
    found = stored.get("status") or {}
    return found if found.get("observedGeneration") == stored["metadata"]["generation"] else {}


def complete(admin: Api, pools: int) -> bool:
    items = admin[f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders"]["items"]
    return all((item.get("status") or {}).get("summary") == f"{pools}/{pools}" for item in items)


def images_of(admin: Api, number: int) -> set[str]:
    items = admin[f"/apis/apps/v1/namespaces/{WORK}/deployments?labelSelector=app=demo"]["items"]
    owned = (item for item in items if item["metadata"]["ownerReferences"][0]["name"] == f"demo-{number}")
    return {item["spec"]["template"]["spec"]["containers"][0]["image"] for item in owned}


def simulate(plane: ControlPlane, replicas: Fleet, subjects: int, pools: int) -> None:
    admin = plane.api()
    empty = [resident(server) for server in replicas.servers]
    fill(admin, subjects, pools)
    count = subjects * pools
    print(f"{subjects} YurtAppSets x {pools} pools: {count:,} workloads, created through the webhook\n")
    wait_for(lambda: complete(admin, pools), seconds=300, what="every overrider says that it is rendered")
    leader = replicas.leader()
    (follower,) = (server for server in replicas.servers if server is not leader)
    print("| | time | API calls (without Lease, Secret and caBundle checks) |\n|---|---|---|")
    scope = f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders"
    measured(
        plane, f"an overrider of {pools} workloads is edited", lambda: admin.apply(f"{scope}/rule-0", rule(0, "3.0")),
        lambda: status(admin, 0).get("summary") == f"{pools}/{pools}",
    )  # fmt: skip
    measured(
        plane, f"an overrider of {pools} workloads is deleted", lambda: admin.delete(f"{scope}/rule-1"),
        lambda: images_of(admin, 1) == {"nginx:1.0"},
    )  # fmt: skip
    memory = (
        f"\nMemory (resident): leader {resident(leader):.0f} MB, other replica {resident(follower):.0f} MB; "
        f"of each before the first object {min(empty):.0f} MB."
    )

    def take_over() -> None:
        replicas.remove(leader)
        leader.process.send_signal(signal.SIGKILL)
        leader.process.wait(timeout=10)

    def looked_at_all() -> bool:
        lists = calls(plane)["list deployments"]
        return follower is replicas.leader() and lists >= before + 2 * (count // 500)

    before = calls(plane)["list deployments"]
    measured(plane, "the leader is killed (Lease of 3 s), the next has looked at all", take_over, looked_at_all)
    print(memory)
    print(
        "\n| fault in the middle of 10 overriders' work | workloads | time to recover | lost or wrong |\n|---|---|---|---|"
    )
    replicas.start()
    middle(plane, replicas, "apiserver killed and restarted", "4.0", lambda: restart(plane), pools)
    middle(plane, replicas, "leader killed (Lease of 3 s)", "5.0", lambda: kill_leader(replicas), pools)


def restart(plane: ControlPlane) -> None:
    plane.kill("kube-apiserver")
    plane.start_apiserver()


def kill_leader(replicas: Fleet) -> None:
    leader = replicas.leader()
    replicas.remove(leader)
    leader.process.send_signal(signal.SIGKILL)
    leader.process.wait(timeout=10)


def middle(plane: ControlPlane, replicas: Fleet, title: str, tag: str, fault: Callable[[], None], pools: int) -> None:
    """Edit ten overriders, let something happen once a fifth is done, and wait until all of it is."""
    admin, numbers = plane.api(), range(2, 12)
    leader = replicas.leader()
    before = touched(leader)
    for number in numbers:
        admin.apply(f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders/rule-{number}", rule(number, tag))
    wait_for(lambda: touched(leader) - before >= 2 * pools, seconds=60)
    fault()
    started = time.perf_counter()
    wait_for(lambda: all(status(admin, one).get("summary") == f"{pools}/{pools}" for one in numbers), seconds=300)
    seconds = time.perf_counter() - started
    wrong = sum(images_of(admin, number) != {f"nginx:{tag}"} for number in numbers)
    print(f"| {title} | {len(numbers) * pools} | {seconds:.1f} s | {wrong} |", flush=True)


def touched(server: Server) -> float:
    text = server.request("GET", "/metrics")[1].decode()
    return next(
        float(line.split()[1]) for line in text.splitlines() if line.startswith("fleethook_controller_touched_total ")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subjects", type=int, default=200)
    parser.add_argument("--pools", type=int, default=50)
    given = parser.parse_args()
    binaries = build.find()
    if binaries is None:
        sys.exit("there is no control plane; make controlplane builds one")
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_plane(binaries, Path(directory)))
        install_crds(plane.api())
        work = Path(directory) / "fleet"
        work.mkdir()
        plane.api().create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "replicas"}}
        )
        replicas = stack.enter_context(fleet(plane, work, "replicas", replicas=2))
        simulate(plane, replicas, given.subjects, given.pools)


if __name__ == "__main__":
    main()
