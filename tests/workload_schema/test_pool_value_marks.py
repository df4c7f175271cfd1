"""The marks of a plan are replaced by the values of a pool."""

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from fleethook.workload_schema.pool_value_marks import POOL_MARK, REPLICAS_MARK, Filler, PoolValues

VALUES = PoolValues("hangzhou", 3)
MARKS = st.sampled_from([POOL_MARK, f"{POOL_MARK}.example.com", f"{POOL_MARK}/{POOL_MARK}", REPLICAS_MARK])
PLAIN = st.none() | st.booleans() | st.integers(0, 100) | st.text("ab", max_size=3)
NAMES = st.text("abc", min_size=1, max_size=3) | st.sampled_from([POOL_MARK, f"x-{POOL_MARK}"])


def containers_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4)


DOCUMENTS = st.recursive(PLAIN | MARKS, containers_of, max_leaves=20)


class Pair(NamedTuple):
    first: Any
    second: Any


@given(DOCUMENTS)
def test_every_mark_is_filled_and_nothing_else_changes(document: Any) -> None:
    assert Filler(document).fill(VALUES) == VALUES.fill(document)


@given(DOCUMENTS)
def test_filling_again_does_not_depend_on_the_pool_before(document: Any) -> None:
    filler = Filler(document)
    filler.fill(PoolValues("beijing", 9))
    assert filler.fill(VALUES) == VALUES.fill(document)


def test_parts_without_marks_stay_shared() -> None:
    plain, marked = {"image": ["nginx"]}, {"pool": POOL_MARK}
    filled = Filler({"plain": plain, "marked": marked}).fill(VALUES)
    assert filled["plain"] is plain
    assert filled["marked"] == {"pool": "hangzhou"}
    assert marked == {"pool": POOL_MARK}


def test_parts_that_are_shared_stay_shared() -> None:
    marked = {"pool": [POOL_MARK]}
    filled = Filler((marked, {"again": marked})).fill(VALUES)
    assert filled[0] is filled[1]["again"]


def test_named_tuples_keep_their_types() -> None:
    filled = Filler(Pair([POOL_MARK], (1, POOL_MARK))).fill(VALUES)
    assert filled == Pair(["hangzhou"], (1, "hangzhou"))
    assert type(filled) is Pair
    assert type(filled.second) is tuple
