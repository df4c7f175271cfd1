"""Tests of the tweaks that node pools share."""

from typing import Any

from fleethook.engines.overrider.convert.pool_conversion import Part, PoolConversion, group_tweaks

EVERY = frozenset({"a", "b", "c"})


def conversion(name: str, *parts: Part) -> PoolConversion:
    return PoolConversion(name, parts, (), {}, {}, {}, (), ())


def part(number: int, owner: str = "", **tweaks: Any) -> Part:
    return Part((2, number), owner, f"{owner}.items[0]", tweaks)


def image(name: str) -> list[dict[str, str]]:
    return [{"name": "nginx", "targetImage": name}]


def group(*conversions: PoolConversion, fits: bool = True) -> list[dict[str, Any]]:
    return group_tweaks(conversions, every=EVERY, fits=lambda _: fits)


def test_pools_with_the_same_part_share_a_tweak() -> None:
    same = part(0, replicas=3)
    assert group(conversion("a", same), conversion("b", part(0, replicas=4)), conversion("c", same)) == [
        {"pools": ["a", "c"], "tweaks": {"replicas": 3}},
        {"pools": ["b"], "tweaks": {"replicas": 4}},
    ]


def test_a_tweak_of_all_pools_selects_all_node_pools() -> None:
    assert group(*(conversion(name, part(0, replicas=3)) for name in "abc")) == [
        {"nodepoolSelector": {}, "tweaks": {"replicas": 3}}
    ]


def test_parts_of_an_entry_become_one_tweak() -> None:
    parts = [part(0, "entries[0]", containerImages=image("x:1")), part(1, "entries[0]", replicas=3)]
    assert group(conversion("a", *parts)) == [
        {"pools": ["a"], "tweaks": {"replicas": 3, "containerImages": image("x:1")}}
    ]
    other = [parts[0], part(1, "entries[1]", replicas=3)]
    assert [one["tweaks"].keys() for one in group(conversion("a", *other))] == [{"containerImages"}, {"replicas"}]


def test_lists_of_the_parts_of_an_entry_are_joined() -> None:
    parts = [part(0, "entries[0]", patches=[{"path": "/a"}]), part(1, "entries[0]", patches=[{"path": "/b"}])]
    (tweak,) = group(conversion("a", *parts))
    assert tweak["tweaks"]["patches"] == [{"path": "/a"}, {"path": "/b"}]


def test_a_part_does_not_move_before_a_tweak_of_one_of_its_pools() -> None:
    first, third = (part(number, "entries[0]", patches=[{"path": f"/{number}"}]) for number in (0, 2))
    between = part(1, "entries[1]", replicas=3)
    tweaks = group(conversion("a", first, between, third), conversion("b", first, third))
    assert [(one["pools"], [*one["tweaks"]]) for one in tweaks] == [
        (["a", "b"], ["patches"]), (["a"], ["replicas"]), (["a", "b"], ["patches"]),
    ]  # fmt: skip


def test_a_tweak_that_does_not_fit_alone_makes_one_of_all_patches_of_a_pool() -> None:
    parts = [
        part(0, "entries[0]", patches=[{"path": "/a"}]),
        part(1, "entries[1]", replicas=3),
        part(2, "entries[2]", patches=[{"path": "/b"}]),
    ]
    assert [one["tweaks"] for one in group(conversion("a", *parts), fits=False)] == [
        {"replicas": 3},
        {"patches": [{"path": "/a"}, {"path": "/b"}]},
    ]
