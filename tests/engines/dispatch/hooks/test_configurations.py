"""Compiled configurations follow the store."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.store.store import key_of
from fleethook.engines.dispatch.hooks.configurations import Configurations
from tests.engines.dispatch.builders import configuration, review, store_of, webhook
from tests.engines.dispatch.worlds import KIND, World, equivalents, hooks, rule_attributes
from tests.hypothesis_profiles import examples


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.sampled_from("wxyz"), st.none() | st.lists(hooks("c"), max_size=3)), max_size=8),
    rule_attributes,
    equivalents,
)
def test_incremental_changes_give_the_same_webhooks_as_a_fresh_start(changes: Any, request: Any, others: Any) -> None:
    store = store_of()
    followed = Configurations(store)
    store.put(configuration("c", "validating", webhook(), name="always"))
    followed.hooks("c", "validating")
    for name, made in changes:
        document = configuration("c", "validating", *(made or ()), name=name)
        if made is None:
            store.remove(key_of(document))
        else:
            store.put(document)
        found = followed.hooks("c", "validating")
        fresh = Configurations(store).hooks("c", "validating")
        one, other = (
            (
                [(hook.uid, hook.position, hook.rules) for hook in each.hooks],
                [(hook.uid, hook.position, how) for hook, how in each.find_relevant(request, KIND, others)],
            )
            for each in (found, fresh)
        )
        assert one == other


async def test_only_changed_configurations_are_compiled_again() -> None:
    world = World(store_of(*(configuration("a", "validating", webhook(f"{name}.b.c"), name=name) for name in "xy")))
    await world.dispatch(review(), cluster="a", phase="validating")
    compiled = world.dispatcher._configurations._hooks["a", "validating"].hooks._groups
    before = dict(compiled)
    world.store.put(configuration("a", "validating", webhook("new.b.c"), name="x"))
    world.calls.clear()
    await world.dispatch(review(), cluster="a", phase="validating")
    assert [call.uid for call in world.calls] == ["x/new.b.c/0", "y/y.b.c/0"]
    assert compiled["y"] is before["y"]
    world.store.remove(key_of(configuration("a", "validating", name="x")))
    world.calls.clear()
    await world.dispatch(review(), cluster="a", phase="validating")
    assert [call.uid for call in world.calls] == ["y/y.b.c/0"]
    assert list(compiled) == ["y"]
