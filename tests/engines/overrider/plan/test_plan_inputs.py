"""The comparison of the inputs of plans."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.plan.plan_inputs import get_identity, same_input
from tests.builders import yurt_app_set


def changed(**metadata: Any) -> dict[str, Any]:
    document = yurt_app_set()
    document["metadata"] |= metadata
    return document


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (None, None),
        (yurt_app_set(), copy.deepcopy(yurt_app_set())),
        (yurt_app_set(), {**yurt_app_set(), "status": {"replicas": 3}}),
        (yurt_app_set(), changed(resourceVersion="7", generation=3, managedFields=[])),
    ],
)
def test_status_and_bookkeeping_are_no_input(known: Any, now: Any) -> None:
    assert same_input(known, now)
    assert same_input(now, known)


@pytest.mark.parametrize(
    "now",
    [None, changed(name="other"), changed(namespace="other"), changed(uid="u"), changed(labels={"a": "b"}), changed(annotations={"a": "b"}),
     {**yurt_app_set(), "spec": {}}, {**yurt_app_set(), "more": 1}],
)  # fmt: skip
def test_anything_else_is_another_input(now: Any) -> None:
    assert not same_input(yurt_app_set(), now)
    assert not same_input(now, yurt_app_set())


def test_the_identity_has_the_members_that_a_plan_may_depend_on() -> None:
    document = changed(labels={"a": "b"}, resourceVersion="7")
    assert get_identity(document) == ("demo", "default", document["metadata"]["uid"], {"a": "b"}, None)
