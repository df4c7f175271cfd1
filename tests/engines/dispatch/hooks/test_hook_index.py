"""Compiled configurations follow the store."""

import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.hooks.hook_index import Configurations, HookIndex
from fleethook.engines.dispatch.hooks.hooks import compile_hooks
from fleethook.engines.dispatch.match.rules import match_rules
from fleethook.model.webhook_rules import RuleAttributes
from fleethook.work.pausing import Pauses, do_at_once
from tests.engines.dispatch.builders import configuration, review, store_of, webhook
from tests.engines.dispatch.worlds import KIND, World, equivalents, hooks, resource, rule_attributes
from tests.hypothesis_profiles import examples


@settings(max_examples=examples(300))
@given(st.lists(hooks("c"), max_size=6), st.lists(st.tuples(rule_attributes, equivalents), min_size=1, max_size=4))
def test_the_index_finds_the_same_webhooks_as_a_scan(made: Any, requests: Any) -> None:
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", *made)))
    for request, others in (*requests, *requests):
        expected = [
            (hook, invocation)
            for hook in compiled.hooks
            if (invocation := match_rules(hook, request, KIND, others)) is not None
        ]
        assert [tuple(one) for one in compiled.find_relevant(request, KIND, others)] == expected


def test_rules_with_thousands_of_names_are_found() -> None:
    names = [f"n{number}" for number in range(2000)]
    rules = [{"operations": ["CREATE"], "apiGroups": names, "apiVersions": ["*"], "resources": names}]
    compiled = HookIndex(list(compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=rules)))))
    wanted = RuleAttributes("CREATE", resource(plural="n7", group="n1999"), "", namespaced=True)
    assert len(compiled.find_relevant(wanted, KIND, ())) == 1
    assert compiled.find_relevant(wanted._replace(resource=resource(plural="n7", group="other")), KIND, ()) == ()
    assert len(compiled._index) == 1


def count_candidates(compiled: HookIndex, wanted: RuleAttributes) -> int:
    return len(do_at_once(compiled._list_candidates(wanted, ()).each(Pauses(sys.maxsize))))


def test_webhooks_for_other_operations_and_groups_are_no_candidates() -> None:
    rules = [
        {"operations": ["CREATE"], "apiGroups": [f"g{number}"], "apiVersions": ["*"], "resources": ["*"]}
        for number in range(500)
    ]
    rules += [{**rule, "operations": ["CONNECT"], "apiGroups": ["*"]} for rule in rules]
    made = [webhook(f"w{number}", rules=[rule]) for number, rule in enumerate(rules)]
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", *made)))
    assert count_candidates(compiled, RuleAttributes("CREATE", resource(group="g7"), "", namespaced=True)) == 1
    assert count_candidates(compiled, RuleAttributes("CONNECT", resource(group="g7"), "", namespaced=True)) == 500
    assert count_candidates(compiled, RuleAttributes("DELETE", resource(group="g7"), "", namespaced=True)) == 0


def test_the_index_is_proportional_to_the_listed_names() -> None:
    names = [f"n{number}" for number in range(20)]
    rules = [{"operations": ["CREATE", "UPDATE"], "apiGroups": names, "apiVersions": ["*"], "resources": names}]
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=rules))))
    assert 1 < len(compiled._index) <= 4 * (2 + 20 + 20)
    wanted = RuleAttributes("UPDATE", resource(plural="n7", group="n19"), "", namespaced=True)
    assert len(compiled.find_relevant(wanted, KIND, ())) == 1
    assert compiled.find_relevant(wanted._replace(operation="DELETE"), KIND, ()) == ()


def test_webhooks_of_the_same_name_have_different_uids() -> None:
    same = configuration("c", "validating", webhook("w"), webhook("v"), webhook("w"), name="x")
    other = configuration("c", "validating", webhook("w"), name="y")
    found = HookIndex(hook for one in (same, other) for hook in compile_hooks("validating", "c", one)).hooks
    assert [hook.uid for hook in found] == ["x/w/0", "x/v/0", "x/w/1", "y/w/0"]
    assert [hook.position for hook in found] == [0, 1, 2, 3]


def test_the_cache_is_bounded() -> None:
    compiled = HookIndex(list(compile_hooks("validating", "c", configuration("c", "validating", webhook()))))
    for number in range(5000):
        compiled.find_relevant(RuleAttributes("CREATE", resource(plural=f"r{number}"), "", namespaced=True), KIND, ())
    assert len(compiled._cache) == 4096


def test_the_cache_is_proportional_to_the_webhooks() -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    made = configuration("c", "validating", *(webhook(f"w{number}", rules=[rule]) for number in range(3_000)))
    compiled = HookIndex(compile_hooks("validating", "c", made))
    for number in range(20):
        assert (
            len(compiled.find_relevant(RuleAttributes("CREATE", resource(plural=f"r{number}"), "", True), KIND, ()))
            == 3_000
        )
    assert sum(map(len, compiled._cache.values())) <= 12_000


def test_requests_with_long_names_are_not_cached() -> None:
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", webhook())))
    compiled.find_relevant(RuleAttributes("CREATE", resource(plural="r" * 100_000), "", True), KIND, ())
    assert not compiled._cache


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
