from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.controller.unstored_values import MAX_POINTERS, UnstoredValues, summarize_unstored
from fleethook.engines.overrider.render.member_differences import ABSENT, Difference
from fleethook.model.gvk import GroupKind

LOST = summarize_unstored("lost", [Difference("/spec/misspelled", ("spec", "misspelled"), True, ABSENT)])
EMPTY = summarize_unstored("empty", [Difference("/spec/paused", ("spec", "paused"), False, ABSENT)])


def key(name: str) -> ObjectKey:
    return ObjectKey("", GroupKind("apps", "Deployment"), "default", name)


def test_lost_values_are_distinguished_from_empty_ones() -> None:
    assert (LOST.lost, LOST.insignificant) == (("/spec/misspelled",), ())
    assert (EMPTY.lost, EMPTY.insignificant) == ((), ("/spec/paused",))


def test_only_the_same_differences_are_explained() -> None:
    known = UnstoredValues()
    known.remember(key("a"), LOST)
    assert known.explains(key("a"), "lost")
    assert not known.explains(key("a"), "another")
    assert not known.explains(key("b"), "lost")
    known.forget(key("a"))
    assert not known.explains(key("a"), "lost")


def test_the_memory_is_bounded_in_number_and_size() -> None:
    known = UnstoredValues(max_workloads=2)
    for name in "abac":
        known.remember(key(name), LOST)
    assert [known.explains(key(name), "lost") for name in "abc"] == [True, False, True]
    many = [Difference(f"/spec/{number}", ("spec", str(number)), 1, ABSENT) for number in range(100)]
    assert len(summarize_unstored("many", many).lost) == MAX_POINTERS


def test_the_oldest_lost_values_are_requested_again() -> None:
    known = UnstoredValues()
    for name in "abc":
        known.remember(key(name), LOST)
    known.remember(key("d"), EMPTY)
    known.forget_lost(most=2)
    assert [known.get(key(name)) is not None for name in "abcd"] == [False, False, True, True]
    known.remember(key("a"), LOST)
    known.forget_lost(most=1)
    assert [known.get(key(name)) is not None for name in "abcd"] == [True, False, False, True]
