from pathlib import Path

import pytest

from fleethook.app import Fleethook
from fleethook.cli.replay import list_resources
from fleethook.cluster.kubernetes.watched_resources import DISPATCHING, INTERPRETING, KCP, RESOURCES
from fleethook.settings import Settings
from tests.cli.commands import run_command
from tests.cli.serve.test_serve_kcp import kcp, make_list_item
from tests.engines.dispatch.builders import binding, configuration, export, review, webhook
from tests.engines.dispatch.webhook_server import deny, webhooks
from tests.kcp_paths import Kcp
from tests.recordings.recordings import write
from tests.recordings.replaying import recording

__all__ = ["kcp", "make_list_item"]

OPENYURT = {one.name for one in RESOURCES}
INTERPRETED = {one.name for one in INTERPRETING} | {"configmaps"}
DISPATCHED = {one.name for one in DISPATCHING} - {one.name for one in KCP}


def names(*routes: str, kcp: bool = False, **settings: object) -> set[str]:
    return {one.name for one in list_resources(Fleethook(Settings.model_validate(settings), log=None), routes, kcp=kcp)}


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("/mutate-apps-v1-deployment", OPENYURT),
        ("/validate-apps-openyurt-io-v1alpha1-yurtappset", OPENYURT),
        ("/explore", INTERPRETED),
        ("/interpret", INTERPRETED),
        ("/clusters/{cluster}/validate", DISPATCHED),
        ("/dispatch/mutate", DISPATCHED),
        ("/mutate-operator-karmada-io-v1alpha1-karmada", set()),
    ],
)
def test_a_route_needs_the_resources_of_its_engine(route: str, expected: set[str]) -> None:
    assert names(route) == expected


def test_all_routes_need_the_resources_of_the_enabled_engines() -> None:
    assert names() == OPENYURT | INTERPRETED | DISPATCHED
    assert names(engines=["overrider"]) == OPENYURT
    assert {one.name for one in KCP} < names(kcp=True)


def test_every_route_that_reads_objects_has_resources() -> None:
    alone = ("karmada", "webhookconfiguration", "observe")
    for route in Fleethook(Settings(), log=None).reviews:
        if not route.endswith(alone) or "config-karmada" in route:
            assert names(route), route


async def test_reviews_are_replayed_with_the_objects_of_a_kcp(kcp: Kcp, tmp_path: Path) -> None:
    bound = (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"))
    async with webhooks(tmp_path) as server:
        server.answers["/w"] = deny("no", code=403)
        hook = webhook(clientConfig=server.client_config("/w"))
        async with recording(*bound, configuration("ws1", "validating", hook)) as made:
            await made.ask("/clusters/ws3/validate", review())
    file = write(tmp_path / "a.jsonl", *made.text().splitlines()[1:])
    source = ("--kcp", "--kubeconfig", str(kcp.kubeconfig(tmp_path)), "--context", "shard-base")
    done = run_command("replay", str(file), *source, "--route", "/clusters/{cluster}/validate")
    # The webhook of this kcp selects namespaces by a label, and neither it nor the record has the namespace.
    assert done.stdout.startswith(
        "undecidable: read Namespace default, /clusters/{cluster}/validate in ws3: 1 review\n"
    )
    assert done.returncode == 1
    assert {one.method for one in kcp.asked} == {"GET"}
