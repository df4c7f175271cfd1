"""Tests of the estimated memory of a plan. test_plan_cache.py compares it with tracemalloc."""

from typing import Any

from fleethook.engines.overrider.plan.plan_size import size_of
from fleethook.model.merge_keys import WORKLOAD

LONG = "x" * 1000


def test_an_object_is_counted_once() -> None:
    value = {"a": LONG}
    assert size_of([value], shared=None) > len(LONG)
    assert size_of([value, value, LONG], shared=None) - size_of([value], shared=None) < 100


def test_parts_of_the_shared_document_are_not_counted() -> None:
    shared: dict[str, Any] = {"spec": [{"text": LONG}]}
    own = {"inner": shared["spec"], "text": LONG}
    assert size_of(own, shared=shared) < len(LONG) < size_of(own, shared=None)


def test_names_of_members_and_the_merge_keys_are_not_counted() -> None:
    assert size_of({LONG: 1}, shared=None) == size_of({"short": 1}, shared=None)
    assert size_of([WORKLOAD], shared=None) == size_of([None], shared=None)


def test_a_function_is_counted_with_its_closure() -> None:
    def make(text: str) -> Any:
        return lambda: text

    assert size_of(make("y" * 5000), shared=None) - size_of(make("y" * 1000), shared=None) == 4000
