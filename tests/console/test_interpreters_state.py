import yaml

from app.console.interpreters_state import make_state
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


async def test_the_kinds_follow_the_store() -> None:
    foo = GroupVersionKind("foo.example.com", "v1alpha1", "Foo")
    store, worker = make_context().store, Worker()
    state = make_state(store)
    assert foo not in (await state.interpreters.get(worker)).kinds
    store.put(yaml.safe_load(CUSTOMIZATION))
    assert foo in (await state.interpreters.get(worker)).kinds
