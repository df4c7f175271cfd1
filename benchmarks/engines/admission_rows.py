"""The rows of the part `admission`: each has a namespace of one kube-apiserver, and a webhook for it."""

import base64
import contextlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.engines.admission_load import Write
from benchmarks.engines.admission_planes import (
    CONSTANT,
    NAMESPACES,
    POOLS,
    RENDERED,
    World,
    make_world,
    select_namespace,
    wait_until_active,
    workloads_path,
)
from benchmarks.engines.deployments import plane
from benchmarks.harness.processes import serving
from benchmarks.harness.section import Context
from benchmarks.harness.server_group import certificate
from benchmarks.servers import PATH
from fleethook.cluster.registration.webhook_configurations import NOT_DELETING
from fleethook.engines.overrider.subject.match_condition_texts import (
    OWNED,
    SelectedSubjects,
    SubjectName,
    write_conditions,
)
from fleethook.model.openyurt import POOL_NAME_LABEL, REVISION_LABEL
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import OPENYURT, WEBHOOKS, run_registered_server
from tests.e2e.openyurt_crds import install_openyurt_crds

NODE_POOLS: Final = "apps.openyurt.io/v1beta2"
NONE, NOOP, RUNTIME = "no webhook", "no-op, Go", "no-op, controller-runtime"
LOOP, APP, CONDITIONS = "no-op, Python's event loop", "no-op, fleethook's server", "no-op, Go, fleethook's conditions"
PATCH = "constant patch, Go"
WITHOUT, SETTLED, CHANGED = "fleethook, no overrider", "fleethook, settled", "fleethook, changed"


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
    conditions: bool = False
    """Whether the peer is registered as fleethook is: two webhooks with match conditions, one of which matches."""


def list_rows() -> dict[str, Row]:
    """Return the rows, by name; their worlds differ by the namespace only."""

    def world(namespace: str) -> World:
        return make_world(0, f"bench-{namespace}")

    return {
        NONE: Row(world("none")),
        NOOP: Row(world("noop"), "lean", "/noop"),
        RUNTIME: Row(world("runtime"), "controller-runtime", "/noop"),
        LOOP: Row(world("loop"), "admitting", PATH),
        APP: Row(world("app"), "noop", PATH),
        CONDITIONS: Row(world("conditions"), "lean", "/noop", conditions=True),
        PATCH: Row(world("patch"), "lean", "/annotate", CONSTANT),
        WITHOUT: Row(world("without"), "fleethook", hidden=False),
        SETTLED: Row(world("settled"), "fleethook", mark=RENDERED, hidden=False, settled=True),
        CHANGED: Row(world("changed"), "fleethook", mark=RENDERED, hidden=False),
    }


class Running(NamedTuple):
    """A control plane with webhooks."""

    plane: ControlPlane
    rows: Mapping[str, Row]
    pids: Mapping[str, int]
    """The process of each server."""


@contextlib.contextmanager
def run_rows(context: Context) -> Iterator[Running]:
    """Run a control plane, fleethook and the peers, and wait until each webhook acts.

    Raises:
        NoControlPlaneError: The binaries of the end-to-end tests have not been built.
        TimeoutError: A webhook did not act.
    """
    directory, rows = context.scratch / "admission", list_rows()
    with plane(directory) as running, contextlib.ExitStack() as stack:
        admin = running.api()
        for row in rows.values():
            name = row.world.namespace
            admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        _store(admin, rows.values())
        pids = dict(_start_peers(context, admin, rows.values(), stack))
        own = stack.enter_context(run_registered_server(running, directory))
        pids["fleethook"] = own.process.pid
        for row in rows.values():
            wait_until_active(admin, make_creation(row, "active", 0)[2], row.mark)
        yield Running(running, rows, pids)


def _start_peers(
    context: Context, admin: Api, rows: Collection[Row], stack: contextlib.ExitStack
) -> Iterator[tuple[str, int]]:
    """Start and register the peers; yield the name and the process of each one."""
    authority = certificate(context)
    for name in dict.fromkeys(row.server for row in rows if row.path):
        binary = context.binaries / name
        command = [binary, "--log=/dev/null"] if binary.exists() else [sys.executable, "-m", "benchmarks.servers", name]
        cores = (context.server_core, context.load_core)
        server = stack.enter_context(serving([*command, "--cert-dir", context.scratch], cores=cores))
        for row in rows:
            if row.server == name:
                _register(admin, row, f"https://127.0.0.1:{server.port}{row.path}", authority)
        yield name, server.process.pid


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
    name = row.world.namespace
    webhook = {
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        **select_namespace(name),
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "admissionReviewVersions": ["v1"],
    }
    subject = row.world.subject
    selection = SelectedSubjects(frozenset({SubjectName(name, subject["kind"], subject["metadata"]["name"])}))
    conditions = [[NOT_DELETING, OWNED, *write_conditions(selection, optional=optional)] for optional in (False, True)]
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {"name": f"deployments-{number}.bench.fleethook.io", **webhook, "matchConditions": one}
            for number, one in enumerate(conditions if row.conditions else [[]])
        ],
    }
    admin.apply(f"{WEBHOOKS}/mutatingwebhookconfigurations/{name}", document)


def make_creation(row: Row, turn: str, number: int) -> Write:
    """Return the creation of a workload of a row."""
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
