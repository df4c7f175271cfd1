"""Explain agrees with dispatch."""

import asyncio
import re
import time
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.dispatch.call.phases_and_warnings import MAX_CALLS
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.explanation import ExplainedWebhook, Explanation, explain, find_nearest_miss
from fleethook.engines.dispatch.match.equivalent_resources import EquivalentIndex
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.rule_matching import RuleAttributes
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    namespace,
    request_of,
    review,
    store_of,
    webhook,
    widget,
)
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, hook
from tests.engines.dispatch.worlds import CLUSTERS, World, reviews, world_of, worlds
from tests.engines.dispatch.worlds import hooks as webhooks
from tests.hypothesis_profiles import examples
from tests.waiting import NET


async def run_explain(world: World, made: dict[str, Any], cluster: str = "ws3") -> Explanation:
    deadline = Deadline(time.monotonic() + NET)
    return await explain(world.dispatcher, request_of(made), cluster=cluster, deadline=deadline)


@settings(max_examples=examples(200))
@given(worlds, st.sampled_from(CLUSTERS), reviews())
def test_explain_agrees_with_dispatch(documents: Any, cluster: str, made: dict[str, Any]) -> None:
    async def run() -> None:
        world = world_of(documents, *CLUSTERS)
        found = await run_explain(world, made, cluster)
        for phase, hooks in (("mutating", found.mutating), ("validating", found.validating)):
            world.calls.clear()
            dispatched = await world.dispatch(made, cluster=cluster, phase=phase)
            called = [one.uid for one in hooks if one.decision == "call"]
            errors = [one for one in hooks if one.decision == "error"]
            sent = [one.uid for one in world.calls]
            assert dispatched.response.allowed is (not errors and found.owner.cluster is not None)
            if not errors:
                assert sent == called
            elif phase == "validating":
                # All filters are evaluated before the first call.
                assert sent == []
            else:
                # Webhooks are called in sequence, up to the first error.
                first = hooks.index(errors[0])
                assert sent == [one.uid for one in hooks[:first] if one.decision == "call"]
            if errors:
                assert errors[0].reason or dispatched.response.message

    asyncio.run(run())


def world(*documents: dict[str, Any]) -> World:
    return World(store_of(*documents))


BOUND = (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"))


async def test_the_owner_is_traced_and_the_consumers_webhooks_are_shadowed() -> None:
    mine = configuration("ws3", "validating", webhook("mine.example.org"), name="mine")
    found = await run_explain(world(*BOUND, mine, configuration("ws1", "validating", webhook())), review())
    assert (found.cluster, found.resource, found.operation) == ("ws3", "widgets.example.org", "CREATE")
    assert (found.owner.case, found.owner.cluster, found.owner.binding) == ("bound", "ws1", "widgets")
    assert [one.uid for one in found.validating] == ["hooks/w.example.org/0"]
    assert found.shadowed == ("validating: mine/mine.example.org/0",)


async def test_all_filters_are_reported_after_the_decision() -> None:
    hook = webhook(
        rules=[{**WIDGETS, "operations": ["UPDATE"]}],
        namespaceSelector={"matchLabels": {"tier": "gold"}},
        objectSelector={"matchLabels": {"checked": "yes"}},
        matchConditions=[{"name": "large", "expression": "object.spec.size > 10"}],
    )
    found = await run_explain(
        world(configuration("ws3", "validating", hook), namespace("ws3", tier="tin")), review(widget(size=1))
    )
    (one,) = found.validating
    assert (one.decision, one.stage) == ("skip", "rules")
    assert one.reason == "no rule matches CREATE of example.org/v1 widgets in namespace default"
    assert one.nearest_miss == (
        "rules[0] would match if 'CREATE' were in operations ['UPDATE'], "
        "but then namespaceSelector and objectSelector and matchConditions would skip it"
    )
    assert [(answer.stage, answer.ok, answer.reason) for answer in one.predicates[1:]] == [
        ("namespaceSelector", False, "does not select the labels kubernetes.io/metadata.name=default, tier=tin"),
        ("objectSelector", False, "does not select the labels none"),
        ("matchConditions", False, "large: false"),
    ]


async def test_the_nearest_miss_has_the_fewest_mismatches() -> None:
    far = {"apiGroups": ["apps"], "apiVersions": ["v2"], "resources": ["deployments"], "operations": ["DELETE"]}
    near = {**WIDGETS, "resources": ["widgets/status"], "scope": "Cluster"}
    found = await run_explain(world(configuration("ws3", "validating", webhook(rules=[far, near]))), review())
    assert found.validating[0].nearest_miss == (
        "rules[1] would match if its scope were 'Namespaced' or '*' instead of 'Cluster' "
        "and 'widgets' were in resources ['widgets/status']"
    )


@pytest.mark.parametrize(
    ("rule", "policy", "reason", "miss"),
    [
        ({}, "Exact", "; matchPolicy is Exact", "rules[0] would match if 'v1' were in apiVersions ['v2']"),
        ({"operations": ["DELETE"]}, "Exact", "in namespace default",
         "rules[0] would match if 'CREATE' were in operations ['DELETE'] and 'v1' were in apiVersions ['v2']"),
        ({"operations": ["DELETE"]}, "Equivalent", "in namespace default",
         "rules[0] would match example.org/v2 widgets, an equivalent resource, if 'CREATE' were in operations ['DELETE']"),
    ],
)  # fmt: skip
async def test_mismatches_respect_the_match_policy(rule: dict[str, Any], policy: str, reason: str, miss: str) -> None:
    hook = webhook(rules=[{**WIDGETS, "apiVersions": ["v2"], **rule}], matchPolicy=policy)
    made = world(definition("ws3", "widgets.example.org", "v1", "v2"), configuration("ws3", "validating", hook))
    (one,) = (await run_explain(made, review())).validating
    assert one.reason.endswith(reason)
    assert one.nearest_miss == miss


MISS: Final = re.compile(
    r"rules\[(\d+)\] would match(?: .*, an equivalent resource,)? if (.*?)(?:, but then (.*) would .*)?"
)
CHANGE: Final = re.compile(
    r"its scope were '(?P<scope>.*?)' or .*|matchPolicy were (?P<policy>.*)|'(?P<name>.*?)' were in (?P<field>\w+) .*"
)


def apply_nearest_miss(hook: dict[str, Any], text: str) -> str:
    """Make the changes that a text names, and return the filters that it says would still prevent a call."""
    found = MISS.fullmatch(text)
    assert found, text
    rule = hook["rules"][int(found[1])]
    for change in found[2].split(" and "):
        named = CHANGE.fullmatch(change)
        assert named, change
        if named["scope"]:
            rule["scope"] = named["scope"]
        elif named["policy"]:
            hook["matchPolicy"] = named["policy"]
        else:
            rule[named["field"]].append(named["name"])
    return found[3] or ""


REQUESTS: Final = (
    review(),
    review(old=widget(), document=widget(size=2), operation="UPDATE"),
    review(subResource="status", old=widget(), document=widget(), operation="UPDATE"),
    review({**widget(), "metadata": {"name": "b"}}, subResource="scale"),
    review({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, namespace="default"),
    review({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"of": "a"}}},
           namespace="default", subResource="status", operation="UPDATE"),
    review({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
    review({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}},
           subResource="exec", operation="CONNECT", object={"kind": "PodExecOptions", "apiVersion": "v1"}),
)  # fmt: skip


@settings(max_examples=examples(200))
@given(webhooks("ws3"), st.sampled_from(REQUESTS))
def test_the_change_of_the_nearest_miss_makes_the_webhook_match(hook: dict[str, Any], made: dict[str, Any]) -> None:
    others = (definition("ws3", "widgets.example.org", "v1", "v2"), namespace("ws3", of="a"))

    def run() -> ExplainedWebhook:
        found = run_explain(world(*others, configuration("ws3", "validating", hook)), made)
        return asyncio.run(found).validating[0]

    before = run()
    assert bool(before.nearest_miss) is (before.stage == "rules")
    if not before.nearest_miss:
        return
    remaining = apply_nearest_miss(hook, before.nearest_miss)
    after = run()
    assert after.nearest_miss == ""
    assert after.predicates[0].ok
    if remaining:
        assert after.stage in remaining.split(" and ")
    elif "an equivalent resource" in before.nearest_miss:
        assert after.stage in ("", "matchConditions")
    else:
        assert after.decision == "call"


async def test_the_kind_that_a_webhook_gets_is_reported() -> None:
    hook = webhook(rules=[{**WIDGETS, "apiVersions": ["v2"]}])
    made = world(definition("ws3", "widgets.example.org", "v1", "v2"), configuration("ws3", "validating", hook))
    (one,) = (await run_explain(made, review())).validating
    assert (one.decision, one.sent_as) == ("call", "example.org/v2, Kind=Widget")
    assert one.predicates[0].reason == "rules[0] matches example.org/v2 widgets, an equivalent resource"


async def test_mutating_timeouts_above_the_budget_are_noted() -> None:
    hooks = [webhook(f"{name}.example.org", timeoutSeconds=12) for name in "abc"]
    found = await run_explain(world(configuration("ws3", "mutating", *hooks)), review())
    assert found.notes == ("the mutating webhooks may take 36 s in sequence; an apiserver waits 34 s",)


@pytest.mark.parametrize(
    ("expression", "has_defaults", "decision", "reason"),
    [
        ("object.spec.size == 3", False, "unknown", "kube-apiserver may set spec.size before it asks, and the input has no definition of Widget: add it to the object, give the definition of Widget, or name a cluster"),
        ("has(object.spec.size)", False, "unknown", "kube-apiserver may set spec.size before it asks, and "),
        ("object.spec.parts.all(p, p.a == 1) && oldObject.spec.b == 1", False, "unknown", "kube-apiserver may set spec.parts and spec.parts.*.a before it asks, and "),
        ("object.spec.size == 3", True, "error", "a: error: "),
        ("object.spec.size == 3", None, "error", "a: error: "),
        ("object.metadata.labels.a == 'b'", False, "error", "a: error: "),
        ("object.metadata.name == 'other' && object.spec.size == 3", False, "skip", "a: false"),
        ("object.metadata.managedFields.size() > 0", True, "unknown", "kube-apiserver sets metadata.managedFields before it asks: add it to the object"),
    ],
)  # fmt: skip
async def test_a_condition_about_a_member_that_an_apiserver_sets_is_unknown(
    expression: str, has_defaults: Any, decision: str, reason: str
) -> None:
    hook = webhook(matchConditions=[{"name": "a", "expression": expression}])
    made = world(definition("ws3", "widgets.example.org", "v1"), configuration("ws3", "validating", hook))
    deadline = Deadline(time.monotonic() + NET)
    request = request_of(review(widget(colour="red")))
    found = await explain(made.dispatcher, request, has_defaults=has_defaults, cluster="ws3", deadline=deadline)
    (one,) = found.validating
    assert (one.decision, one.reason[: len(reason)]) == (decision, reason)


@pytest.mark.parametrize(
    ("versions", "notes"),
    [
        (["v1", "v1beta1"], ()),
        (["v2", "v1beta1", "v1"], ("it gets an AdmissionReview of v1beta1",)),
        (["v2"], ("the call fails: webhook does not accept known AdmissionReview versions (v1, v1beta1)",)),
    ],
)
async def test_the_version_of_the_review_is_noted(versions: list[str], notes: tuple[str, ...]) -> None:
    made = world(configuration("ws3", "validating", webhook(admissionReviewVersions=versions)))
    (one,) = (await run_explain(made, review())).validating
    assert (one.decision, one.notes) == ("call", notes)


async def test_unsupported_dry_runs_are_noted() -> None:
    made = world(configuration("ws3", "validating", webhook(sideEffects="Some")))
    (one,) = (await run_explain(made, review(dryRun=True))).validating
    assert one.notes == ("it does not support dry runs (sideEffects), so the dry run is refused",)


async def test_too_many_webhooks_are_noted(front: Front, server: Webhooks) -> None:
    deadline = Deadline(time.monotonic() + NET)
    text = f"the request is refused in the validating phase: it matches more than {MAX_CALLS} webhooks, the limit of"
    for count, notes in ((MAX_CALLS, ()), (MAX_CALLS + 1, (f"{text} one request",))):
        hooks = [hook(server, "/w", f"w{number}.example.org") for number in range(count)]
        store = store_of(configuration("ws2", "validating", *hooks))
        dispatcher = front.dispatcher(store)
        found = await explain(dispatcher, request_of(review()), cluster="ws2", deadline=deadline)
        assert found.notes == notes


@pytest.mark.parametrize(
    ("rule", "request_", "text"),
    [
        ({"resources": ["namespaces"], "scope": "Namespaced"}, ("namespaces", "", True),
         "its scope were 'Cluster' or '*' instead of 'Namespaced'"),
        ({"resources": ["namespaces"], "scope": "Cluster"}, ("namespaces", "status", True),
         "'namespaces/status' were in resources ['namespaces']"),
        ({"resources": ["*"]}, ("pods", "status", True),
         "'pods/status' were in resources ['*'], whose '*' includes no subresources"),
        ({"resources": ["nodes"], "scope": "Namespaced"}, ("nodes", "", False),
         "its scope were 'Cluster' or '*' instead of 'Namespaced'"),
        ({"resources": ["pods/*"], "operations": ["UPDATE"]}, ("pods", "exec", True),
         "'CREATE' were in operations ['UPDATE']"),
        ({"resources": ["*/scale"]}, ("pods", "", True), "'pods' were in resources ['*/scale']"),
        ({"resources": ["pods"]}, ("pods", "", True), None),
    ],
)  # fmt: skip
def test_the_nearest_miss_names_the_fields_to_change(
    rule: dict[str, Any], request_: tuple[str, str, bool], text: str | None
) -> None:
    every = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "scope": "*"}
    (hook,) = compile_webhooks("validating", "c", configuration("c", "validating", webhook(rules=[{**every, **rule}])))
    plural, subresource, namespaced = request_
    request = RuleAttributes("CREATE", GroupVersionResource("", "v1", plural), subresource, namespaced=namespaced)
    miss = find_nearest_miss(hook, request, EquivalentIndex(()))
    assert (None if miss is None else str(miss)) == (None if text is None else f"rules[0] would match if {text}")
