from app.console.dispatch_state import make_state
from app.control.worker import Worker
from tests.console.visits import make_context
from tests.dispatch.builders import binding, configuration, webhook


async def test_the_values_follow_the_store() -> None:
    store = make_context(binding("c", "p", "widgets.example.org")).store
    state, worker = make_state(store), Worker()
    assert [one.consumer for one in (await state.fleet.get(worker)).bindings] == ["c"]
    assert "no-rules" not in {one.code for one in await state.findings.get(worker)}
    store.put(binding("d", "p", "widgets.example.org"))
    store.put(configuration("p", "mutating", webhook(rules=[])))
    assert [one.consumer for one in (await state.fleet.get(worker)).bindings] == ["c", "d"]
    assert "no-rules" in {one.code for one in await state.findings.get(worker)}
