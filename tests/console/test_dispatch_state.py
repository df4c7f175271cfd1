from types import SimpleNamespace
from typing import Any

from app.console.dispatch_state import find_state, make_state
from app.control.worker import Worker
from tests.console.visits import make_context
from tests.dispatch.builders import binding, configuration, webhook


def request_of(app: Any) -> Any:
    return SimpleNamespace(app=app)


async def test_requests_of_one_application_share_their_values() -> None:
    app = SimpleNamespace(state=SimpleNamespace(context=make_context()))
    assert find_state(request_of(app)) is find_state(request_of(app))


async def test_the_values_follow_the_store() -> None:
    store = make_context(binding("c", "p", "widgets.example.org")).store
    state, worker = make_state(store), Worker()
    assert [one.consumer for one in (await state.fleet.get(worker)).bindings] == ["c"]
    assert "no-rules" not in {one.code for one in await state.findings.get(worker)}
    store.put(binding("d", "p", "widgets.example.org"))
    store.put(configuration("p", "mutating", webhook(rules=[])))
    assert [one.consumer for one in (await state.fleet.get(worker)).bindings] == ["c", "d"]
    assert "no-rules" in {one.code for one in await state.findings.get(worker)}
