"""Tests of the decision between a policy and the webhook."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.policies.mode import (
    MODE_ANNOTATION,
    Budget,
    Compilation,
    Mode,
    Refusal,
    decide,
    describe,
    read_mode,
    serves_policies,
)
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, overrider


def test_a_refusal_means_that_the_overrider_does_not_compile() -> None:
    assert Compilation((), "", ()).compiles
    assert not Compilation((), "", (Refusal("entries[0]", "", "a reason"),)).compiles


REFUSAL = Refusal("entries[0].patches[1]", "/spec/replicas", "a reason")
NAMES = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]


@pytest.mark.parametrize("default", Mode)
@pytest.mark.parametrize("annotation", Mode)
def test_the_annotation_wins_over_the_setting(default: Mode, annotation: Mode) -> None:
    rule = overrider(entry("*"), annotations={MODE_ANNOTATION: annotation.value})
    assert read_mode(rule, default) == (annotation, "")
    assert read_mode(overrider(entry("*")), default) == (default, "")


def test_an_unknown_annotation_is_ignored_with_a_reason() -> None:
    mode, ignored = read_mode(overrider(entry("*"), annotations={MODE_ANNOTATION: "Policy"}), Mode.WEBHOOK)
    assert mode is Mode.WEBHOOK
    assert ignored == "annotation fleethook.io/mode is 'Policy'; set it to one of policy, webhook, auto"
    assert ignored in decide(mode, is_served=True, refusals=(), ignored=ignored).message


@pytest.mark.parametrize(
    ("names", "expected"), [(NAMES, True), ([*NAMES, "other"], True), (NAMES[:1], False), ([], False), (None, False)]
)
def test_policies_need_both_resources(names: list[str] | None, expected: bool) -> None:
    listed: dict[str, Any] = {} if names is None else {"resources": [{"name": one} for one in names]}
    assert serves_policies(listed) is expected


@pytest.mark.parametrize(
    ("mode", "is_served", "refusals", "expected"),
    [
        (Mode.WEBHOOK, True, (), (False, "WebhookRequested")),
        (Mode.AUTO, True, (), (True, "Compiled")),
        (Mode.POLICY, True, (), (True, "Compiled")),
        (Mode.AUTO, False, (), (False, "NotServed")),
        (Mode.POLICY, False, (), (False, "NotServed")),
        (Mode.AUTO, True, (REFUSAL,), (False, "DoesNotCompile")),
        (Mode.POLICY, True, (REFUSAL,), (False, "DoesNotCompile")),
    ],
)
def test_a_policy_needs_the_mode_the_api_and_all_entries(
    mode: Mode, is_served: bool, refusals: tuple[Refusal, ...], expected: tuple[bool, str]
) -> None:
    decision = decide(mode, is_served=is_served, refusals=refusals)
    assert (decision.uses_policy, decision.reason) == expected


def test_the_message_names_the_first_refusals() -> None:
    message = decide(Mode.AUTO, is_served=True, refusals=(REFUSAL,) * 5).message
    assert message.count("entries[0].patches[1] (/spec/replicas): a reason") == 3
    assert message.endswith(" and 2 more")


@pytest.mark.parametrize(
    ("is_active", "problem", "expected"),
    [(True, "", ("True", "Active")), (False, "", ("Unknown", "Activating")), (False, "no", ("False", "NotApplied"))],
)
def test_the_condition_is_true_only_for_an_active_policy(
    is_active: bool, problem: str, expected: tuple[str, str]
) -> None:
    decision = decide(Mode.AUTO, is_served=True, refusals=())
    condition = describe(decision, is_active=is_active, problem=problem)
    assert (condition.status, condition.reason) == expected
    assert problem in condition.message


def test_the_condition_of_the_webhook_has_the_reason_of_the_decision() -> None:
    decision = decide(Mode.AUTO, is_served=False, refusals=())
    condition = describe(decision, is_active=True)
    assert (condition.status, condition.reason, condition.message) == ("False", "NotServed", decision.message)


A, B, C = (Binding("", YURT_APP_SET, "default", name) for name in "abc")


def test_policies_of_others_count() -> None:
    budget = Budget(2)
    assert not budget.take(A, 1, others=2)
    assert budget.take(A, 1, others=1)
    assert not budget.take(B, 1, others=1)


def test_a_subject_with_room_keeps_it_if_others_are_added_meanwhile() -> None:
    budget = Budget(2)
    assert budget.take(A, 2, others=0)
    assert budget.enter(A, others=5)
    assert budget.take(A, 2, others=5)
    assert budget.take(A, 1, others=5)
    assert not budget.take(A, 2, others=5)


def test_the_first_subject_that_fits_is_next() -> None:
    budget = Budget(3)
    assert budget.take(A, 3, others=0)
    assert not budget.take(B, 3, others=0)
    assert not budget.enter(C, others=0)
    assert budget.find_next(others=0) is None
    assert budget.take(A, 2, others=0)
    assert budget.find_next(others=0) == C
    budget.give_back(A)
    assert budget.find_next(others=0) == B
    budget.give_back(B)
    assert budget.find_next(others=0) == C


def test_a_subject_that_gave_back_its_room_neither_holds_any_nor_waits() -> None:
    budget = Budget(1)
    assert budget.take(A, 1, others=0)
    assert not budget.take(B, 1, others=0)
    assert budget.is_full
    budget.give_back(B)
    assert not budget.is_full


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 4), st.integers(0, 2)), max_size=30),
)
def test_no_order_of_requests_exceeds_the_limit(most: int, requests: list[tuple[Binding, int, int]]) -> None:
    budget, held = Budget(most), dict[Binding, int]()
    for binding, count, others in requests:
        if count == 0:
            budget.give_back(binding)
            held.pop(binding, None)
        elif budget.take(binding, count, others=others):
            grew = count > held.get(binding, 0)
            held[binding] = count
            assert not grew or sum(held.values()) + others <= most
        else:
            held.pop(binding, None)
        # A subject that waits is offered room only if it would get it.
        if waiting := budget.find_next(others=others):
            assert waiting not in held
