from types import SimpleNamespace
from typing import Any

import yaml

from app.console.interpreters_state import find_state, make_state
from app.control.worker import Worker
from app.model.gvk import GroupVersionKind
from tests.console.visits import make_context

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: foo}
spec:
  target: {apiVersion: foo.example.com/v1alpha1, kind: Foo}
  customizations:
    healthInterpretation: {luaScript: "function InterpretHealth(obj) return true end"}
"""


def request_of(app: Any) -> Any:
    return SimpleNamespace(app=app)


async def test_requests_of_one_application_share_their_values() -> None:
    app = SimpleNamespace(state=SimpleNamespace(context=make_context()))
    assert find_state(request_of(app)) is find_state(request_of(app))


async def test_the_kinds_follow_the_store() -> None:
    foo = GroupVersionKind("foo.example.com", "v1alpha1", "Foo")
    store, worker = make_context().store, Worker()
    state = make_state(store)
    assert foo not in (await state.interpreters.get(worker)).kinds
    store.put(yaml.safe_load(CUSTOMIZATION))
    assert foo in (await state.interpreters.get(worker)).kinds
