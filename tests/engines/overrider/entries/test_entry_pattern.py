"""Tests of the pattern that entries of several node pools share."""

from typing import Any

from fleethook.engines.overrider.entries.entry_pattern import Applied, EntryPatterns
from fleethook.engines.overrider.entries.value_marks import REPLICAS_MARK, PoolValues
from tests.builders import entry, image, patch

EVERY = entry("*", items=[{"tolerations": []}])


def find(entries: list[Any], pool: str, *, template: Any = None, config: Any = None) -> tuple[EntryPatterns, Applied]:
    patterns = EntryPatterns(entries, template=template or {})
    return patterns, patterns.find(pool, config)


def filled(patterns: EntryPatterns, applied: Applied, pool: str, replicas: int | None = None) -> list[Any]:
    values = PoolValues(pool, replicas, applied.values)
    return [values.fill(dict(one.entry)) for one in patterns.entries_of(applied)]


def test_entries_that_differ_by_values_have_one_key_and_fill_to_what_was_written() -> None:
    entries = [
        EVERY,
        *(entry(pool, items=[image("nginx", f"nginx:{pool}"), {"replicas": n}]) for pool, n in (("a", 5), ("b", 6))),
    ]
    patterns = EntryPatterns(entries, template={})
    applied = {pool: patterns.find(pool, None) for pool in "ab"}
    assert applied["a"].key == applied["b"].key
    assert applied["a"].numbers == (0, 1)
    assert applied["b"].values.texts == ("nginx:b",)
    for number, pool in enumerate("ab", start=1):
        assert [one["items"] for one in filled(patterns, applied[pool], pool)] == [
            EVERY["items"], entries[number]["items"],
        ]  # fmt: skip


def test_entries_of_another_shape_have_another_key() -> None:
    entries = [entry("a", items=[image("nginx", "x:1")]), entry("b", items=[image("other", "x:2")])]
    patterns = EntryPatterns(entries, template={})
    assert patterns.find("a", None).key != patterns.find("b", None).key


def test_the_literal_entries_have_no_marks() -> None:
    patterns = EntryPatterns([entry("a", items=[image("nginx", "x:1")])], template={})
    (found,) = patterns.entries_of(patterns.find_literal("a"))
    assert (found.field, found.entry["items"]) == ("entries[0]", [image("nginx", "x:1")])


def test_a_value_that_the_template_has_too_stays_literal() -> None:
    entries = [entry("a", items=[image("nginx", "nginx:1")])]
    _, applied = find(entries, "a", template={"image": "nginx:1"})
    assert applied.values.texts == ()
    _, applied = find(entries, "a", template={"image": "nginx:2"})
    assert applied.values.texts == ("nginx:1",)


def test_a_value_by_which_a_path_selects_stays_literal() -> None:
    path = "/spec/template/spec/containers/[image=r.io~1x:1]/tty"
    entries = [entry("a", items=[image("nginx", "r.io/x:1")], patches=[patch("add", path, True)])]
    _, applied = find(entries, "a")
    assert applied.values.texts == ()


def test_the_replicas_of_the_pool_have_a_mark_of_their_own() -> None:
    patterns, applied = find([entry("a", items=[{"replicas": 4}])], "a", config={"replicas": 4})
    assert applied.slots == ((("replicas", REPLICAS_MARK),),)
    assert filled(patterns, applied, "a", 4)[0]["items"] == [{"replicas": 4}]


def test_default_and_zero_replicas_stay_literal() -> None:
    for number in (0, 1):
        _, applied = find([entry("a", items=[{"replicas": number}])], "a")
        assert applied.slots == ((("literal", number),),)


def test_a_pool_with_more_than_64_values_has_literal_entries() -> None:
    def args(count: int) -> list[Any]:
        return [entry("a", items=[{"args": {"containerName": "n", "args": [f"v{n}" for n in range(count)]}}])]

    assert find(args(64), "a")[1].slots != ()
    assert find(args(65), "a")[1].slots == ()
