"""Events in a fleet: edited and deleted overriders, killed leaders, restarted apiservers."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.engines import scale_objects
from benchmarks.engines.scale_objects import pool_name
from benchmarks.reviews import overrider
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import ACCOUNT, NAMESPACE, OPENYURT, Fleet
from tests.e2e.workloads import path_of, workload_of
from tests.serving import Server
from tests.waiting import wait_for

USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
WORK = "bench"
SUBJECTS, POOLS = 200, 50
PAGE = 200
"""Page size of the controller's lists."""
IMAGE = "registry.example.com/shop/app"
_ROUTINE = (
    "get leases", "update leases", "get secrets", "get mutatingwebhookconfigurations", "get validatingwebhookconfigurations",
)  # fmt: skip


def resident(server: Server) -> float:
    """Return the MB of resident memory."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def rule(number: int, tag: str) -> dict[str, Any]:
    made = overrider(f"demo-{number}")
    made["entries"][0]["items"][0]["image"]["imageClaim"] = f"{IMAGE}:{tag}"
    made["entries"][1]["pools"] = ["*", "-pool-0000"]
    made["metadata"] = {"name": f"rule-{number}", "namespace": WORK}
    return made


def subject(number: int, pools: int) -> dict[str, Any]:
    made = scale_objects.subject(number, pools)
    made["metadata"] = {"name": f"demo-{number}", "namespace": WORK}
    # An own label, so that a selector lists its workloads without the others.
    labels = {"app": "shop", "demo": f"demo-{number}"}
    template = made["spec"]["workloadTemplate"]["deploymentTemplate"]
    made["spec"]["selector"]["matchLabels"] = template["metadata"]["labels"] = labels
    template["spec"]["template"]["metadata"]["labels"] |= labels
    return made


def fill(admin: Api, subjects: int, pools: int) -> None:
    """Create everything through the webhook."""
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORK}})
    scope = f"{OPENYURT}/namespaces/{WORK}"

    def create(number: int) -> None:
        stored = admin.create(f"{scope}/yurtappsets", subject(number, pools))
        admin.create(f"{scope}/yurtappoverriders", rule(number, "2.0"))
        for index in range(pools):
            made = workload_of(stored, pool_name(index))
            admin.create(path_of(made), made)

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(create, range(subjects)))


def calls(plane: ControlPlane) -> Counter[str]:
    return Counter(
        f"{verb} {resource}" for _, resource, verb, code in plane.read_audit_log(USER) if verb != "watch" and code
    )


def measure(plane: ControlPlane, title: str, act: Callable[[], Any], done: Callable[[], Any]) -> dict[str, Any]:
    """Act and wait until ``done``; return the time and the API calls that this took."""
    before = calls(plane)
    started = time.perf_counter()
    act()
    wait_for(done, seconds=300)
    seconds = time.perf_counter() - started
    made = calls(plane) - before
    for routine in _ROUTINE:
        del made[routine]
    return {
        "title": title,
        "seconds": seconds,
        "calls": ", ".join(f"{count} {name}" for name, count in made.most_common()),
    }


def status(admin: Api, number: int) -> dict[str, Any]:
    stored = admin[f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders/rule-{number}"]
    found = stored.get("status") or {}
    return found if found.get("observedGeneration") == stored["metadata"]["generation"] else {}


def complete(admin: Api, pools: int) -> bool:
    items = admin[f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders"]["items"]
    return all((item.get("status") or {}).get("summary") == f"{pools}/{pools}" for item in items)


def images_of(admin: Api, number: int) -> set[str]:
    items = admin[f"/apis/apps/v1/namespaces/{WORK}/deployments?labelSelector=demo=demo-{number}"]["items"]
    return {item["spec"]["template"]["spec"]["containers"][0]["image"] for item in items}


def simulate(plane: ControlPlane, replicas: Fleet) -> dict[str, Any]:
    """Fill the apiserver and run every event once; return the figures."""
    admin = plane.api()
    empty = [resident(server) for server in replicas.servers]
    fill(admin, SUBJECTS, POOLS)
    wait_for(lambda: complete(admin, POOLS), seconds=900, what="every overrider reports that it is rendered")
    leader = replicas.leader()
    (follower,) = (server for server in replicas.servers if server is not leader)
    scope = f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders"
    events = [
        measure(
            plane, f"an overrider of {POOLS} workloads is edited", lambda: admin.apply(f"{scope}/rule-0", rule(0, "3.0")),
            lambda: status(admin, 0).get("summary") == f"{POOLS}/{POOLS}",
        ),
        measure(
            plane, f"an overrider of {POOLS} workloads is deleted", lambda: admin.delete(f"{scope}/rule-1"),
            lambda: images_of(admin, 1) == {f"{IMAGE}:1.13.0"},
        ),
    ]  # fmt: skip
    memory = {"leader": resident(leader), "other": resident(follower), "empty": min(empty)}
    events.append(measure_takeover(plane, replicas, follower))
    replicas.start()
    faults = [
        measure_fault(plane, replicas, "apiserver killed and restarted", "4.0", lambda: restart(plane)),
        measure_fault(plane, replicas, "leader killed (Lease of 3 s)", "5.0", lambda: kill_leader(replicas)),
    ]
    return {"subjects": SUBJECTS, "pools": POOLS, "events": events, "memory": memory, "faults": faults}


def measure_takeover(plane: ControlPlane, replicas: Fleet, follower: Server) -> dict[str, Any]:
    before = calls(plane)["list deployments"]

    def compared_all() -> bool:
        lists = calls(plane)["list deployments"]
        return follower is replicas.leader() and lists >= before + 2 * (SUBJECTS * POOLS // PAGE)

    title = "the leader is killed (Lease of 3 s) and the next one has compared all workloads"
    return measure(plane, title, lambda: kill_leader(replicas), compared_all)


def restart(plane: ControlPlane) -> None:
    plane.kill("kube-apiserver")
    plane.start_apiserver()


def kill_leader(replicas: Fleet) -> None:
    leader = replicas.leader()
    replicas.remove(leader)
    leader.process.send_signal(signal.SIGKILL)
    leader.process.wait(timeout=10)


def measure_fault(
    plane: ControlPlane, replicas: Fleet, title: str, tag: str, fault: Callable[[], None]
) -> dict[str, Any]:
    """Edit ten overriders, inject a fault once a fifth of the workloads is touched, and wait for the rest."""
    admin, numbers = plane.api(), range(2, 12)
    leader = replicas.leader()
    before = count_touched(leader)
    for number in numbers:
        admin.apply(f"{OPENYURT}/namespaces/{WORK}/yurtappoverriders/rule-{number}", rule(number, tag))
    wait_for(lambda: count_touched(leader) - before >= 2 * POOLS, seconds=60)
    fault()
    started = time.perf_counter()
    wait_for(lambda: all(status(admin, one).get("summary") == f"{POOLS}/{POOLS}" for one in numbers), seconds=300)
    seconds = time.perf_counter() - started
    wrong = sum(images_of(admin, number) != {f"{IMAGE}:{tag}"} for number in numbers)
    return {"title": title, "workloads": len(numbers) * POOLS, "seconds": seconds, "wrong": wrong}


def count_touched(server: Server) -> float:
    text = server.request("GET", "/metrics")[1].decode()
    return next(
        float(line.split()[1]) for line in text.splitlines() if line.startswith("fleethook_controller_touched_total ")
    )
