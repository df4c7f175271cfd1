from types import SimpleNamespace
from typing import Any

from fleethook.console.shared_value import KeptValue
from tests.console.visits import make_context


def request_of(app: Any) -> Any:
    return SimpleNamespace(app=app)


def make_app() -> Any:
    return SimpleNamespace(state=SimpleNamespace(context=make_context(), kept_values={}))


def test_requests_of_one_application_share_a_value() -> None:
    kept = KeptValue(lambda _: object())
    app = make_app()
    assert kept.find(request_of(app)) is kept.find(request_of(app))


def test_two_applications_and_two_values_share_nothing() -> None:
    one, other = KeptValue(lambda _: object()), KeptValue(lambda _: object())
    app = make_app()
    assert one.find(request_of(app)) is not one.find(request_of(make_app()))
    assert one.find(request_of(app)) is not other.find(request_of(app))


def test_the_value_is_made_of_the_context_of_its_application() -> None:
    app = make_app()
    assert KeptValue(lambda context: context.store).find(request_of(app)) is app.state.context.store
