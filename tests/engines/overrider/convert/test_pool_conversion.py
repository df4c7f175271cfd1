"""Tests of the tweaks of one node pool."""

from typing import Any

from fleethook.engines.overrider.convert.pool_conversion import (
    Part,
    PoolConversion,
    convert_pool,
    group_tweaks,
    step_of,
    workload_of,
)
from fleethook.engines.overrider.convert.subject_conversion import with_tweaks
from fleethook.engines.overrider.convert.workload_diff import find_losses
from tests.builders import container, entry, image, images, patch, pod_template
from tests.engines.overrider.convert.sources import source_of

SPEC = "/spec/template/spec"
IMAGE = {"name": "nginx", "targetImage": "x:1"}


def convert(*entries: dict[str, Any], **spec: Any) -> PoolConversion:
    return convert_pool(source_of(*entries, **spec))


def tweaks_of(made: PoolConversion) -> list[tuple[str, dict[str, Any]]]:
    """Return the tweaks with their steps, without the replicas of the topology."""
    assert made.parts[0].tweaks == {"replicas": 2}
    return [(part.field, part.tweaks) for part in made.parts[1:]]


def test_images_and_replicas_become_their_tweaks() -> None:
    made = convert(entry("*", items=[image("nginx", "x:1"), {"replicas": 5}]))
    assert tweaks_of(made) == [
        ("entries[0].items[0]", {"containerImages": [IMAGE]}),
        ("entries[0].items[1]", {"replicas": 5}),
    ]
    assert (made.late_items, made.unset) == ((), ())


def test_an_image_of_an_unknown_container_becomes_nothing() -> None:
    assert tweaks_of(convert(entry("*", items=[image("absent", "x:1")]))) == []


def test_an_image_after_a_patch_of_it_becomes_a_patch() -> None:
    patched = patch("replace", f"{SPEC}/containers/0/image", "x:0")
    made = convert(entry("*", patches=[patched]), entry("*", items=[image("nginx", "x:1")]))
    assert tweaks_of(made)[1] == (
        "entries[1].items[0]", {"patches": [patch("replace", f"{SPEC}/containers/0/image", "x:1")]},
    )  # fmt: skip
    assert made.late_items == ("entries[1].items[0]",)


def test_a_replaced_element_unsets_the_members_that_openyurt_keeps() -> None:
    template = pod_template(containers=[container(args=["a"])])
    replaced = patch("replace", f"{SPEC}/containers/0", container(image="x:1"))
    made = convert(entry("*", patches=[replaced]), template=template)
    assert made.unset == (f"{SPEC}/containers/0/args",)
    assert made.parts[-1].tweaks == {"patches": [patch("add", f"{SPEC}/containers/0/args", None)]}


def test_the_tweaks_give_the_expected_workload() -> None:
    source = source_of(entry("*", items=[image("nginx", "x:1")], patches=[patch("add", f"{SPEC}/hostNetwork", True)]))
    made = convert_pool(source)
    tweaks = [{"pools": ["a"], "tweaks": part.tweaks} for part in made.parts]
    got = workload_of(with_tweaks(source.converted, tweaks), source, tweaks=range(len(tweaks)))
    assert list(find_losses(made.wanted, got, "Deployment")) == []
    assert images(workload_of(with_tweaks(source.converted, tweaks), source, tweaks=())) == {"nginx": "nginx:1.0"}


def test_a_difference_belongs_to_the_last_step_that_changed_its_path() -> None:
    made = convert(
        entry("*", items=[image("nginx", "x:1")]),
        entry("*", items=[image("nginx", "x:2"), {"replicas": 5}]),
    )
    losses = {one.path: one for one in find_losses(made.wanted, made.base, "Deployment")}
    assert step_of(losses[f"{SPEC}/containers/0/image"], made.base, made).field == "entries[1].items[0]"
    assert step_of(losses["/spec/replicas"], made.base, made).field == "entries[1].items[1]"


EVERY = frozenset({"a", "b", "c"})


def conversion(name: str, *parts: Part) -> PoolConversion:
    return PoolConversion(name, parts, (), {}, {}, {}, (), ())


def part(number: int, owner: str = "", **tweaks: Any) -> Part:
    return Part((2, number), owner, f"{owner}.items[0]", tweaks)


def images_of(name: str) -> list[dict[str, str]]:
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
    parts = [part(0, "entries[0]", containerImages=images_of("x:1")), part(1, "entries[0]", replicas=3)]
    assert group(conversion("a", *parts)) == [
        {"pools": ["a"], "tweaks": {"replicas": 3, "containerImages": images_of("x:1")}}
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
