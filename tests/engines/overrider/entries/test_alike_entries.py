"""Tests of the pattern that entries of several node pools share."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.alike_entries import Applied, EntryPatterns, map_values
from fleethook.workload_schema.value_marks import REPLICAS_MARK, PoolValues
from tests.builders import entry, image, patch

SPEC = "/spec/template/spec"


def values_of(item: Any) -> list[str | int]:
    found: list[str | int] = []

    def collect(value: str | int) -> str | int:
        found.append(value)
        return value

    assert map_values(entry("a", items=[item]), collect) == entry("a", items=[item])
    return found


@pytest.mark.parametrize(
    ("item", "values"),
    [
        (image("nginx", "r.io/nginx:{{nodepool}}"), ["r.io/nginx:{{nodepool}}"]),
        ({"replicas": 3}, [3]),
        ({"env": {"containerName": "a", "env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}]}}, ["x"]),
        ({"args": {"containerName": "a", "args": ["-v", "--x=1"]}}, ["-v", "--x=1"]),
        ({"labels": {"a": "b"}}, ["b"]),
        ({"nodeSelector": {"a": "b", "c": None}}, ["b"]),
        ({"annotations": {"a": 'quoted "text"', "b": "ä"}}, []),
        ({"resources": {"containerName": "a", "resources": {"limits": {"cpu": "1"}}}}, []),
        ({"replicas": 2_147_480_017}, []),
        ({"replicas": True}, []),
        (image("nginx", "not an image"), []),
        ({"image": "nginx"}, []),
        ("replicas", []),
    ],
)
def test_only_values_that_no_rule_inspects_are_found(item: Any, values: list[str | int]) -> None:
    assert values_of(item) == values


def test_values_are_replaced_by_items_and_patches_in_order() -> None:
    taken = iter(["i", "p", "q"])
    patches = [
        patch("replace", f"{SPEC}/containers/[name=nginx]/image", "nginx:1"),
        patch("add", "/metadata/annotations/note", "n"),
        patch("add", f"{SPEC}/priorityClassName", "high"),
    ]
    made = map_values(entry("a", items=[image("nginx", "nginx:1")], patches=patches), lambda _: next(taken))
    assert made["items"][0]["image"]["imageClaim"] == "i"
    assert [one["value"] for one in made["patches"]] == ["p", "q", "high"]


@pytest.mark.parametrize("path", [f"{SPEC}/nodeSelector/k", "/spec/template/metadata/labels/k"])
def test_a_value_that_kube_apiserver_refuses_is_not_replaced(path: str) -> None:
    for value, found in (("a b", []), ("a", ["a"]), ("in-{{nodepool}}", [])):
        made: list[str | int] = []
        map_values(entry("a", patches=[patch("add", path, value)]), lambda one, made=made: made.append(one) or one)
        assert made == found


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
