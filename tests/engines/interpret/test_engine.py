from fleethook.app import create_app
from fleethook.engines.interpret.engine import list_webhooks
from fleethook.settings import Settings


def test_the_engine_has_a_route_for_each_webhook() -> None:
    routes = create_app(Settings(engines=("interpret",)), log=None).engine_of_route

    assert {routes[webhook.path] for webhook in list_webhooks()} == {"interpret"}
