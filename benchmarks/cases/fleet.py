"""A fleet of ordinary size on a real apiserver: the cost of editing an overrider, and the memory of a replica."""

from typing import Any

from benchmarks.engines.deployments import NoControlPlaneError, plane
from benchmarks.engines.fleet import POOLS, SUBJECTS, simulate
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from tests.e2e.conftest import install_crds
from tests.e2e.fleet import fleet

TITLE = "Fleet"

ABOUT = """Two replicas and a real apiserver share the cores. Each of {subjects} YurtAppSets with {pools} pools has an overrider, and the webhook admitted all {workloads:,}
workloads. `controller_rate` limits the writes after an edit. API calls are counted in the apiserver's audit log, without those for
the Lease, the Secret and the caBundle checks."""
MEMORY = "Resident memory: leader {leader:.0f} MB, other replica {other:.0f} MB. Before the first object, each has {empty:.0f} MB."
FAULTS = "A fault while the controller updates the workloads of 10 overriders:"


def run(context: Context) -> Section:
    """Simulate once: no peer is compared, so there are no rounds."""
    try:
        with plane(context.scratch / "plane") as running:
            admin = running.api()
            install_crds(admin)
            admin.create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "replicas"}}
            )
            work = context.scratch / "fleet"
            work.mkdir()
            with fleet(running, work, "replicas", replicas=2) as replicas:
                return _section(simulate(running, replicas))
    except NoControlPlaneError:
        return Section(TITLE, "Not measured: there is no control plane; `make controlplane` builds one.", {})


def _section(found: dict[str, Any]) -> Section:
    events = [(one["title"], f"{one['seconds']:.1f} s", one["calls"] or "none") for one in found["events"]]
    faults = [(one["title"], one["workloads"], f"{one['seconds']:.1f} s", one["wrong"]) for one in found["faults"]]
    parts = (
        ABOUT.format(subjects=SUBJECTS, pools=POOLS, workloads=SUBJECTS * POOLS), table(("", "time", "API calls"), events),
        MEMORY.format(**found["memory"]), FAULTS, table(("fault", "workloads", "time to recover", "lost or wrong"), faults),
    )  # fmt: skip
    return Section(TITLE, "\n\n".join(parts), found)
