"""The upgrade of OpenYurt from 1.4 to 1.6 on a real apiserver: its definitions, conversion, and owner controllers.

OpenYurt's controllers are the fakes of tests/e2e/openyurt_controller.py, first that of 1.4, then that of 1.5 and later.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders import entry, image
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.installation import run_installation
from tests.e2e.openyurt import GROUP, V1_4, V1_5, V1Alpha1
from tests.e2e.openyurt_controller import run_yurt_app_set_controller
from tests.e2e.openyurt_conversion import serve_conversion_webhook
from tests.e2e.openyurt_crds import install_openyurt_crds
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.scenario import BEIJING, POOLS, JSONObject, Scenario, apply_node_pools, clear, scenario, with_image
from tests.waiting import wait_for

NODE_POOLS = ("v1alpha1", "v1beta1")
Upgrade = Callable[[Scenario], None]


class FormOf14(V1Alpha1):
    """Like `V1Alpha1`, with a status that OpenYurt's own definition accepts."""

    def status(self, subject: JSONObject, workloads: list[JSONObject]) -> JSONObject:
        replicas = sum(one.get("status", {}).get("replicas", 0) for one in workloads)
        return {**super().status(subject, workloads), "replicas": replicas, "templateType": self.kind(subject)}


def form_of_1_6() -> V1Beta1:
    made = V1Beta1()
    made.node_pools_path = f"/apis/{GROUP}/v1beta1/nodepools"
    return made


@pytest.fixture
def api(openyurt_plane: ControlPlane) -> Iterator[Api]:
    """An apiserver with the definitions of 1.4."""
    api = openyurt_plane.api()
    install_openyurt_crds(api, yurtappsets=("v1alpha1",), nodepools=NODE_POOLS)
    apply_node_pools(api, form_of_1_6(), **{name: {} for name in POOLS})
    yield api
    install_openyurt_crds(api)


@pytest.fixture
def demo(openyurt_plane: ControlPlane, api: Api, tmp_path: Path) -> Iterator[Scenario]:
    """A subject whose workloads 1.4 created, all of them overridden."""
    with (
        run_installation(openyurt_plane, tmp_path),
        scenario(api, release=V1_4, form=FormOf14()) as made,
    ):
        made.override(entry("*", items=[image("nginx", "nginx:2.0")]))
        made.create()
        made.wait_for_specs({pool: made.expected(pool, with_image("nginx:2.0")) for pool in POOLS})
        wait_for(lambda: condition(made) == ("True", "AllRendered", "3 of 3 workloads"))
        yield made


@pytest.fixture
def upgrade(api: Api, tmp_path: Path) -> Iterator[Upgrade]:
    """Upgrade OpenYurt: its controller ends, the definitions are replaced, the next controller starts."""
    with contextlib.ExitStack() as stack:

        def upgrade(demo: Scenario) -> None:
            demo.controller.stop()
            conversion = stack.enter_context(serve_conversion_webhook(tmp_path))
            install_openyurt_crds(
                api, sets_conversion=conversion, yurtappsets=("v1alpha1", "v1beta1"), nodepools=NODE_POOLS
            )
            # A new yurt-manager needs longer than this until it leads.
            wait_for(lambda: condition(demo)[1] == "OwnedByOtherVersion", what="the server reads v1beta1")
            demo.form = form_of_1_6()
            # No client reads the former version once no webhook converts it.
            stack.callback(clear, api, demo.namespace, demo.form)
            demo.controller = stack.enter_context(
                run_yurt_app_set_controller(api, demo.namespace, release=V1_5, form=demo.form)
            )

        yield upgrade


def condition(demo: Scenario) -> tuple[str, str, str]:
    found = {one["type"]: one for one in demo.status().get("conditions", [])}.get("Rendered", {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def image_of(demo: Scenario, path: str) -> str:
    return str(demo.api[path]["spec"]["template"]["spec"]["containers"][0]["image"])


def find_pools(names: dict[str, str], text: str) -> set[str]:
    """Return the pools whose workload a text names."""
    return {pool for pool, path in names.items() if f"Deployment {path.rpartition('/')[2]} in {pool}" in text}


def events(demo: Scenario, reason: str) -> list[str]:
    found = demo.api[f"/api/v1/namespaces/{demo.namespace}/events"]["items"]
    return [str(event["message"]) for event in found if event["reason"] == reason]


def test_released_workloads_keep_their_overrides_and_are_named(demo: Scenario, upgrade: Upgrade) -> None:
    old = {pool: demo.workload_path(pool) for pool in POOLS}
    before = {pool: demo.api[path] for pool, path in old.items()}
    upgrade(demo)
    # The new workloads have their overrides from their creation on.
    wait_for(lambda: set(demo.workloads()) == set(POOLS) and condition(demo)[1] == "OrphanedWorkloads")
    assert not {demo.workload_path(pool) for pool in POOLS} & set(old.values())
    demo.wait_for_specs({pool: demo.expected(pool, with_image("nginx:2.0")) for pool in POOLS})
    wait_for(lambda: find_pools(old, condition(demo)[2]) == set(POOLS), what="the status names the orphans")
    assert condition(demo)[0] == "False"
    wait_for(lambda: demo.status()["summary"] == "3/3", what="the status counts the new workloads")
    for pool, path in old.items():
        stored = demo.api[path]
        assert not stored["metadata"].get("ownerReferences")
        assert stored["spec"] == before[pool]["spec"]
        assert image_of(demo, path) == "nginx:2.0"

    demo.api.delete(old.pop(BEIJING))
    wait_for(lambda: "2 rendered workloads have no owner" in condition(demo)[2], what="the status follows the deletion")
    assert find_pools(old, condition(demo)[2]) == set(old)

    demo.stop_overriding()
    demo.wait_for_specs({pool: demo.expected(pool) for pool in POOLS})
    # Deleting the overrider cannot restore an orphan, and an event says so.
    wait_for(lambda: any(find_pools(old, text) == set(old) for text in events(demo, "OrphanedWorkloads")))
    assert {image_of(demo, path) for path in old.values()} == {"nginx:2.0"}
    demo.start_sentinel()
    # The template of 1.4, that of 1.6 with its overrides, and without: no other was ever stored.
    images = [
        [one["spec"]["containers"][0]["image"] for one in demo.rollouts.templates("demo", pool)] for pool in POOLS
    ]
    assert images == [["nginx:2.0", "nginx:2.0", "nginx:1.0"]] * len(POOLS)
    assert demo.rollouts.replica_sets("demo") == dict.fromkeys(POOLS, 2)
