"""A fleet of ordinary size on a real apiserver: what one edit of an overrider costs, and what a replica weighs."""

from typing import Any

from benchmarks.engines.deployments import NoControlPlaneError, plane
from benchmarks.engines.fleet import POOLS, SUBJECTS, simulate
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from tests.e2e.conftest import install_crds
from tests.e2e.fleet import fleet

TITLE = "Fleet"

ABOUT = """Two replicas and a real apiserver on the same cores; {subjects} YurtAppSets of {pools} pools, all overridden, {workloads:,} workloads
created through the webhook. Edits are held back by `controller_rate`. API calls are counted from the apiserver's audit log, without those
for Lease, Secret and caBundle checks."""
MEMORY = "Resident memory: leader {leader:.0f} MB, other replica {other:.0f} MB; of each before the first object {empty:.0f} MB."
FAULTS = "A fault in the middle of 10 overriders' work:"


def run(context: Context) -> Section:
    """Simulate once: it is a story, not a race."""
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
