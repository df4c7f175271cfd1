"""Compiled configurations follow the store."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.match.equivalent_resources import EquivalentIndex, find_invocation
from fleethook.engines.dispatch.webhooks.cluster_webhooks import MAX_NAMES, MAX_WEBHOOKS, Configurations, WebhookIndex
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.model.rule_matching import RuleAttributes
from fleethook.work.threads_and_gc import Worker, begin
from tests.engines.dispatch.builders import configuration, review, store_of, webhook
from tests.engines.dispatch.worlds import KIND, World, equivalents, hooks, resource, rule_attributes
from tests.hypothesis_profiles import examples


@settings(max_examples=examples(300))
@given(st.lists(hooks("c"), max_size=6), st.lists(st.tuples(rule_attributes, equivalents), min_size=1, max_size=4))
def test_the_index_finds_the_same_webhooks_as_a_scan(made: Any, requests: Any) -> None:
    compiled = WebhookIndex(compile_webhooks("validating", "c", configuration("c", "validating", *made)))
    for request, others in (*requests, *requests):
        expected = [
            (hook, invocation)
            for hook in compiled.webhooks
            if (invocation := find_invocation(hook, request, KIND, EquivalentIndex(others))) is not None
        ]
        assert [tuple(one) for one in compiled.find_relevant(request, KIND, others)] == expected


def test_webhooks_of_the_same_name_have_different_uids() -> None:
    same = configuration("c", "validating", webhook("w"), webhook("v"), webhook("w"), name="x")
    other = configuration("c", "validating", webhook("w"), name="y")
    index = WebhookIndex(hook for one in (same, other) for hook in compile_webhooks("validating", "c", one))
    assert [hook.uid for hook in index.webhooks] == ["x/w/0", "x/v/0", "x/w/1", "y/w/0"]
    request = RuleAttributes("CREATE", resource(), "", namespaced=True)
    assert [one.webhook.position for one in index.find_relevant(request, KIND, ())] == [0, 1, 2, 3]


def _find(configurations: Configurations) -> WebhookIndex:
    found = begin(configurations.find("c", "validating", worker=Worker()))
    assert isinstance(found, WebhookIndex), "a small change is compiled without waiting"
    return found


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
    _find(followed)
    for name, made in changes:
        document = configuration("c", "validating", *(made or ()), name=name)
        if made is None:
            store.remove(key_of(document))
        else:
            store.put(document)
        found = _find(followed)
        fresh = _find(Configurations(store))
        one, other = (
            (
                [(hook.uid, hook.rules) for hook in each.webhooks],
                [(hook.uid, hook.position, how) for hook, how in each.find_relevant(request, KIND, others)],
            )
            for each in (found, fresh)
        )
        assert one == other


async def test_only_changed_configurations_are_compiled_again() -> None:
    world = World(store_of(*(configuration("a", "validating", webhook(f"{name}.b.c"), name=name) for name in "xy")))
    await world.dispatch(review(), cluster="a", phase="validating")
    compiled = world.dispatcher._configurations._webhooks["a", "validating"].webhooks._by_configuration
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


async def test_requests_are_refused_where_there_are_too_many_webhooks() -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["gadgets"]}
    for number, names, text in (
        (MAX_WEBHOOKS, 1, ""),
        (MAX_WEBHOOKS + 1, 1, "there are 1001, "),
        (1, MAX_NAMES, "too many names"),
    ):
        rules = [{**rule, "resources": [f"gadgets{one}" for one in range(names)]}]
        made = configuration("a", "validating", *(webhook(f"w{one}.b.c", rules=rules) for one in range(number)))
        response = (await World(store_of(made)).dispatch(review(), cluster="a", phase="validating")).response
        assert response.allowed == (not text)
        assert text in response.message
