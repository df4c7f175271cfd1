import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.control.slices import Pauses
from app.control.turns import do_at_once
from app.dispatch.configurations import Configurations
from app.dispatch.equivalent_resources import Equivalent
from app.dispatch.hook_index import HookIndex
from app.dispatch.hooks import compile_hooks
from app.dispatch.rules import RuleAttributes, compare_fields, match_rules, matches_rule
from app.model.gvk import GroupVersionKind, GroupVersionResource
from app.store.store import key_of
from tests.dispatch.builders import configuration, store_of, webhook
from tests.dispatch.worlds import hooks

KIND = GroupVersionKind("example.org", "v1", "Widget")


def resource(version: Any = "v1", plural: Any = "widgets", group: Any = "example.org") -> Any:
    return GroupVersionResource(group, version, plural)


asked = st.builds(
    RuleAttributes,
    st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]),
    st.builds(
        resource,
        st.sampled_from(["v1", "v2"]),
        st.sampled_from(["widgets", "gadgets"]),
        st.sampled_from(["example.org", "apps"]),
    ),
    st.sampled_from(["", "status", "scale"]),
    st.booleans(),
)
equivalents = st.lists(
    st.builds(Equivalent, st.builds(resource, st.sampled_from(["v1", "v2", "v3"])), st.none() | st.just(KIND)),
    max_size=3,
).map(tuple)


@settings(max_examples=300, deadline=None)
@given(st.lists(hooks("c"), max_size=6), st.lists(st.tuples(asked, equivalents), min_size=1, max_size=4))
def test_what_is_found_by_resource_is_what_asking_each_webhook_in_turn_finds(made: Any, requests: Any) -> None:
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", *made)))
    for request, others in (*requests, *requests):
        expected = [
            (hook, invocation)
            for hook in compiled.hooks
            if (invocation := match_rules(hook, request, KIND, others)) is not None
        ]
        assert [tuple(one) for one in compiled.find_relevant(request, KIND, others)] == expected


@settings(max_examples=300, deadline=None)
@given(hooks("c"), asked)
def test_a_rule_matches_if_the_request_is_in_each_of_its_lists(made: Any, request: Any) -> None:
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", made))
    for rule in hook.rules:
        assert matches_rule(rule, request) is all(axis.ok for axis in compare_fields(rule, request))


def test_a_rule_that_lists_thousands_is_found_all_the_same() -> None:
    names = [f"n{number}" for number in range(2000)]
    rules = [{"operations": ["CREATE"], "apiGroups": names, "apiVersions": ["*"], "resources": names}]
    compiled = HookIndex(list(compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=rules)))))
    wanted = RuleAttributes("CREATE", resource(plural="n7", group="n1999"), "", namespaced=True)
    assert len(compiled.find_relevant(wanted, KIND, ())) == 1
    assert compiled.find_relevant(wanted._replace(resource=resource(plural="n7", group="other")), KIND, ()) == ()
    assert len(compiled._index) == 1


def candidates(compiled: HookIndex, wanted: RuleAttributes) -> int:
    return len(do_at_once(compiled._list_candidates(wanted, ()).each(Pauses(sys.maxsize))))


def test_webhooks_for_other_operations_and_groups_are_not_looked_at() -> None:
    rules = [
        {"operations": ["CREATE"], "apiGroups": [f"g{number}"], "apiVersions": ["*"], "resources": ["*"]}
        for number in range(500)
    ]
    rules += [{**rule, "operations": ["CONNECT"], "apiGroups": ["*"]} for rule in rules]
    made = [webhook(f"w{number}", rules=[rule]) for number, rule in enumerate(rules)]
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", *made)))
    assert candidates(compiled, RuleAttributes("CREATE", resource(group="g7"), "", namespaced=True)) == 1
    assert candidates(compiled, RuleAttributes("CONNECT", resource(group="g7"), "", namespaced=True)) == 500
    assert candidates(compiled, RuleAttributes("DELETE", resource(group="g7"), "", namespaced=True)) == 0


def test_an_index_takes_no_more_than_a_multiple_of_the_names_that_are_listed() -> None:
    names = [f"n{number}" for number in range(20)]
    rules = [{"operations": ["CREATE", "UPDATE"], "apiGroups": names, "apiVersions": ["*"], "resources": names}]
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=rules))))
    assert 1 < len(compiled._index) <= 4 * (2 + 20 + 20)
    wanted = RuleAttributes("UPDATE", resource(plural="n7", group="n19"), "", namespaced=True)
    assert len(compiled.find_relevant(wanted, KIND, ())) == 1
    assert compiled.find_relevant(wanted._replace(operation="DELETE"), KIND, ()) == ()


def test_webhooks_of_the_same_name_have_identities_of_their_own() -> None:
    same = configuration("c", "validating", webhook("w"), webhook("v"), webhook("w"), name="x")
    other = configuration("c", "validating", webhook("w"), name="y")
    found = HookIndex(hook for one in (same, other) for hook in compile_hooks("validating", "c", one)).hooks
    assert [hook.uid for hook in found] == ["x/w/0", "x/v/0", "x/w/1", "y/w/0"]
    assert [hook.position for hook in found] == [0, 1, 2, 3]


def test_what_is_remembered_is_bounded() -> None:
    compiled = HookIndex(list(compile_hooks("validating", "c", configuration("c", "validating", webhook()))))
    for number in range(5000):
        compiled.find_relevant(RuleAttributes("CREATE", resource(plural=f"r{number}"), "", namespaced=True), KIND, ())
    assert len(compiled._cache) == 4096


def test_members_of_a_wrong_type_are_as_if_they_were_not_there() -> None:
    odd = {
        "metadata": {"name": "odd"},
        "webhooks": [
            None, 7, {"name": 3, "rules": "x", "timeoutSeconds": True, "clientConfig": [], "matchConditions": {}},
            {"name": "w", "rules": [None, {"operations": "CREATE", "resources": [1]}], "timeoutSeconds": 10**9,
             "namespaceSelector": {"matchLabels": 3}, "objectSelector": {"matchExpressions": [None]},
             "admissionReviewVersions": [None, "v1"], "failurePolicy": 3},
        ],
    }  # fmt: skip
    first, second = compile_hooks("validating", "c", odd)
    assert (first.name, first.rules, first.seconds, first.endpoint) == ("", (), 10.0, None)
    assert (second.review_versions, second.seconds, second.fails_open) == (("v1",), 30.0, False)
    assert second.namespace_selector.problem
    assert second.object_selector.problem
    assert not second.rules[0].operations


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("wxyz"), st.none() | st.lists(hooks("c"), max_size=3)), max_size=8),
    asked,
    equivalents,
)
def test_configurations_that_change_one_by_one_are_found_as_if_they_had_always_been_so(
    changes: Any, request: Any, others: Any
) -> None:
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


def test_what_is_remembered_takes_no_more_room_than_the_webhooks() -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    made = configuration("c", "validating", *(webhook(f"w{number}", rules=[rule]) for number in range(3_000)))
    compiled = HookIndex(compile_hooks("validating", "c", made))
    for number in range(20):
        assert (
            len(compiled.find_relevant(RuleAttributes("CREATE", resource(plural=f"r{number}"), "", True), KIND, ()))
            == 3_000
        )
    assert sum(map(len, compiled._cache.values())) <= 12_000


def test_a_request_with_a_long_name_is_not_remembered() -> None:
    compiled = HookIndex(compile_hooks("validating", "c", configuration("c", "validating", webhook())))
    compiled.find_relevant(RuleAttributes("CREATE", resource(plural="r" * 100_000), "", True), KIND, ())
    assert not compiled._cache
