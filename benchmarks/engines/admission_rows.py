"""The rows of the part `admission`: each has a namespace of one kube-apiserver, and a webhook or policy for it."""

import base64
import contextlib
import copy
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.engines.admission_load import WARMUP, Write, delete, put, send, summarize
from benchmarks.engines.admission_planes import (
    CONSTANT,
    NAMESPACES,
    POOLS,
    RENDERED,
    install_constant,
    make_world,
    select_namespace,
    wait_until_active,
)
from benchmarks.engines.deployments import plane
from benchmarks.harness.load import Figures
from benchmarks.harness.processes import children, cpu_seconds, serving
from benchmarks.harness.section import Context
from benchmarks.harness.server_group import certificate
from fleethook.model.openyurt import POOL_NAME_LABEL, REVISION_LABEL
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import ACCOUNT, NAMESPACE, OPENYURT, WEBHOOKS, run_registered_server
from tests.e2e.openyurt_crds import install_openyurt_crds
from tests.e2e.policies import World, workloads_path
from tests.waiting import wait_for

NODE_POOLS: Final = "apps.openyurt.io/v1beta2"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
POLICY: Final = "fleethook, mode policy"
"""The row with a control plane of its own: a fleethook has one mode."""
_READS: Final = frozenset({"get", "list"})
_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_BACKGROUND: Final = frozenset({"leases", "tokenreviews", "subjectaccessreviews"})
"""Resources that fleethook reads and writes at regular times, without any workload."""


class Row(NamedTuple):
    """The writes of a row."""

    world: World
    server: str = ""
    """The server whose CPU counts: a peer, ``fleethook``, or ``""`` for none."""
    path: str = ""
    """The path of the peer's webhook."""
    mark: str = ""
    """The annotation that each write must get, or ``""``."""
    hidden: bool = True
    """Whether the workloads have no label of a node pool, so that fleethook neither watches nor reviews them."""
    settled: bool = False
    """Whether a new workload has the overrides already, and an update keeps them."""


def list_rows() -> dict[str, Row]:
    """Return the rows by name; their worlds differ by the namespace only."""

    def world(namespace: str) -> World:
        return make_world(0, f"bench-{namespace}")

    return {
        "no webhook": Row(world("none")),
        "no-op, Go": Row(world("noop"), "lean", "/noop"),
        "no-op, controller-runtime": Row(world("runtime"), "controller-runtime", "/noop"),
        "constant patch, Go": Row(world("patch"), "lean", "/annotate", CONSTANT),
        "one constant policy": Row(world("constant"), mark=CONSTANT),
        "fleethook, no overrider": Row(world("without"), "fleethook", hidden=False),
        "fleethook, settled": Row(world("settled"), "fleethook", mark=RENDERED, hidden=False, settled=True),
        "fleethook, changed": Row(world("changed"), "fleethook", mark=RENDERED, hidden=False),
        POLICY: Row(world("policy"), "fleethook", mark=RENDERED, hidden=False),
    }


class Running(NamedTuple):
    """A control plane with webhooks and policies."""

    plane: ControlPlane
    pids: Mapping[str, int]
    """The process of each server."""


@contextlib.contextmanager
def run_rows(context: Context, requests: int) -> Iterator[dict[str, "RowWriter"]]:
    """Run control planes, fleethook and the peers, and wait until each webhook and policy acts.

    Args:
        context: The programs, and a directory for files.
        requests: The number of writes of each kind in a turn.

    Raises:
        NoControlPlaneError: The binaries of the end-to-end tests have not been built.
        TimeoutError: A webhook or policy did not act.
    """
    rows = list_rows()
    by_policy = {POLICY: rows[POLICY]}
    with (
        _run_plane(context, {name: row for name, row in rows.items() if name != POLICY}, "webhook") as beside,
        _run_plane(context, by_policy, "policy") as alone,
    ):
        yield {name: RowWriter(alone if name == POLICY else beside, row, requests) for name, row in rows.items()}


@contextlib.contextmanager
def _run_plane(context: Context, rows: Mapping[str, Row], mode: str) -> Iterator[Running]:
    directory = context.scratch / mode
    authority = certificate(context)
    with plane(directory) as running, contextlib.ExitStack() as stack:
        admin = running.api()
        for row in rows.values():
            name = row.world.namespace
            admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            if row.mark == CONSTANT and not row.path:
                install_constant(admin, namespace=name)
        _store(admin, rows.values())
        pids = {}
        for name in dict.fromkeys(row.server for row in rows.values() if row.path):
            command = [context.binaries / name, "--log=/dev/null", "--cert-dir", context.scratch]
            server = stack.enter_context(serving(command, cores=(context.server_core, context.load_core)))
            pids[name] = server.process.pid
            for row in rows.values():
                if row.server == name:
                    _register(admin, row, f"https://127.0.0.1:{server.port}{row.path}", authority)
        own = stack.enter_context(run_registered_server(running, directory, FLEETHOOK_OVERRIDER_MODE=mode))
        pids["fleethook"] = own.process.pid
        if mode == "policy":
            wait_for(lambda: _is_covered(admin), what="the webhook leaves the workloads to the policy")
        for row in rows.values():
            wait_until_active(admin, _creation(row, "active", 0)[2], row.mark)
        yield Running(running, pids)


def _is_covered(admin: Api) -> bool:
    """Return whether the match conditions of fleethook have a list of subjects that policies cover."""
    found = admin[f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"]
    return "(request.namespace)]" in json.dumps(found)


def _store(admin: Api, rows: Collection[Row]) -> None:
    """Store subjects and overriders before the server starts, so that its webhooks do not see their creation."""
    install_openyurt_crds(admin)
    pools = next(iter(rows)).world.pools
    for pool in filter(None, pools.values()):
        admin.create(f"/apis/{NODE_POOLS}/nodepools", {**pool, "apiVersion": NODE_POOLS})
    for row in rows:
        if row.hidden:
            continue
        world = row.world
        made = admin.create(
            f"/apis/{world.subject['apiVersion']}/namespaces/{world.namespace}/yurtappsets", world.subject
        )
        # The owner references of the workloads need the uid that kube-apiserver assigns.
        world.subject["metadata"]["uid"] = made["metadata"]["uid"]
        if row.mark:
            admin.create(f"{OPENYURT}/namespaces/{world.namespace}/yurtappoverriders", world.overrider)


def _register(admin: Api, row: Row, url: str, authority: Path) -> None:
    bundle = base64.b64encode(authority.read_bytes()).decode()
    rule = {
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"],
    }  # fmt: skip
    webhook = {
        "name": "deployments.bench.fleethook.io",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        **select_namespace(row.world.namespace),
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "admissionReviewVersions": ["v1"],
    }
    name = row.world.namespace
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
    admin.apply(f"{WEBHOOKS}/mutatingwebhookconfigurations/{name}", document)


class RowWriter:
    """Writes the workloads of one row."""

    def __init__(self, prepared: Running, row: Row, requests: int) -> None:
        """Create a writer of ``requests`` creations, and as many updates of each kind, in each turn."""
        self._prepared: Final = prepared
        self._row: Final = row
        self._requests: Final = requests
        self._turns: Final = itertools.count()
        self._api: Final = prepared.plane.api()

    def measure(self) -> Figures:
        """Create Deployments, update their specs, write the template again, and delete them, which is not measured.

        Returns:
            For ``create``, ``update`` and ``template``: milliseconds (``_p50_ms``, ``_p99_ms``), and microseconds of
            CPU for each write of kube-apiserver (``_cpu_us``) and of the webhook's server (``_hook_us``). Then the
            requests of fleethook for each write: ``reads`` and ``writes``.

        Raises:
            RuntimeError: kube-apiserver refused a write, or an annotation is missing.
        """
        turn, row = next(self._turns), self._row
        found: dict[str, float] = {}
        with contextlib.closing(self._api.connect()) as connection:
            warm = send(self._api, connection, self._creations(f"{turn}-warm", WARMUP), mark=row.mark)[1]
            delete(self._api, connection, warm)
            given = list(self._creations(str(turn), self._requests))
            before = self._count_requests()
            stored: list[dict[str, Any]] = []
            for operation in ("create", "update", "template"):
                writes = given if operation == "create" else list(self._updates(operation, stored, given))
                apiserver, hook = self._cpu()
                seconds, stored = send(self._api, connection, writes, mark=row.mark)
                spent = self._cpu()
                figures = summarize(seconds, spent[0] - apiserver)
                figures["hook_us"] = (spent[1] - hook) / len(seconds) * 1e6
                found |= {f"{operation}_{key}": value for key, value in figures.items()}
            sent = self._count_requests() - before
            delete(self._api, connection, stored)
        count = 3 * self._requests
        return {**found, "reads": sent["reads"] / count, "writes": sent["writes"] / count}

    def _creations(self, turn: str, count: int) -> Iterator[Write]:
        for number in range(count):
            yield _creation(self._row, turn, number)

    def _updates(self, operation: str, stored: Sequence[dict[str, Any]], given: Sequence[Write]) -> Iterator[Write]:
        for one, (_, _, body) in zip(stored, given, strict=True):
            if operation == "template":
                # As OpenYurt's controllers do after an edit of their template: without the overrides.
                one["metadata"]["labels"][REVISION_LABEL] = "w-2"
                yield put(one, body["spec"])
                continue
            spec = {**copy.deepcopy(one["spec"]), "minReadySeconds": 1}
            if not self._row.settled:
                spec["template"]["spec"]["containers"][0]["image"] = "edited:1"
            yield put(one, spec)

    def _cpu(self) -> tuple[float, float]:
        """Return the seconds of CPU of kube-apiserver, and of the server of the row."""
        pid = self._prepared.pids.get(self._row.server)
        hook = sum(map(cpu_seconds, (pid, *children(pid)))) if pid else 0.0
        return cpu_seconds(self._prepared.plane.process_id("kube-apiserver")), hook

    def _count_requests(self) -> Counter[str]:
        found = Counter[str]()
        if self._row.server != "fleethook":
            return found
        for _, resource, verb, _ in self._prepared.plane.read_audit_log(USER):
            if resource not in _BACKGROUND:
                found["reads"] += verb in _READS
                found["writes"] += verb in _WRITES
        return found


def _creation(row: Row, turn: str, number: int) -> Write:
    document = row.world.bare(POOLS[number % len(POOLS)])
    if row.settled:
        document = row.world.by_webhook(document)
    document["metadata"]["name"] = f"w-{turn}-{number}"
    document["metadata"].setdefault("annotations", {})["bench"] = turn
    document["metadata"]["labels"][REVISION_LABEL] = "w-1"
    if row.hidden:
        # Another name of the same length.
        document = json.loads(json.dumps(document).replace(POOL_NAME_LABEL, POOL_NAME_LABEL.replace("name", "nave")))
    return "POST", workloads_path(document), document
