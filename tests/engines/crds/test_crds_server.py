"""The review routes of Karmada instances."""

from fleethook.app import create_app
from fleethook.cluster.registration import paths
from fleethook.settings import Settings
from tests.server.reviews.asking_routes import ask, review


async def test_the_routes_of_instances_set_defaults_and_validate() -> None:
    routes = {route.path: route for route in create_app(Settings(), log=None).engines["crds"].routes()}
    assert set(routes) == {paths.MUTATE_KARMADA, paths.VALIDATE_KARMADA}
    kind = {"group": "operator.karmada.io", "version": "v1alpha1", "kind": "Karmada"}
    instance = {"apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "a"}, "spec": {}}
    wrong = {**instance, "spec": {"crdTarball": {"httpSource": {"url": "ftp://a"}}}}
    assert (await ask(routes[paths.MUTATE_KARMADA], review(instance, kind)))["allowed"]
    assert not (await ask(routes[paths.VALIDATE_KARMADA], review(wrong, kind)))["allowed"]
