"""Random overriders for policies, with the workloads that their subjects' controllers and other clients write."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.e2e.policies import World, in_namespace, renders
from tests.engines.overrider.worlds import OVERRIDERS, SUBJECTS, Foreign, can_exist

_REORDERED = ("containers", "initContainers", "volumes")


class Variants(NamedTuple):
    """One workload in several forms."""

    bare: dict[str, Any]
    """As OpenYurt's controller writes it."""
    foreign: dict[str, Any]
    """With containers, volumes, variables and fields of other clients."""
    reordered: dict[str, Any]
    """``foreign`` with its lists in another order."""


class Example(NamedTuple):
    """A world with the forms of one of its workloads."""

    world: World
    variants: Variants


def draw_examples(count: int, prefix: str, *, first: int = 1) -> list[Example]:
    """Return up to ``count`` random worlds whose workloads the webhook renders; the same ones for the same seed."""
    found: list[Example] = []

    @seed(first)
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        subject, overrider = data.draw(SUBJECTS), data.draw(OVERRIDERS)
        world = in_namespace(f"{prefix}-{len(found)}", subject, overrider, dict.fromkeys(_pools(subject)))
        if renders(world) and can_exist(world.bare(next(iter(world.pools)))):
            found.append(Example(world, _draw_variants(data.draw, world)))

    collect()
    return found


def _pools(subject: dict[str, Any]) -> list[str]:
    spec = subject["spec"]
    return [one["name"] for one in spec["topology"]["pools"]] if "topology" in spec else spec["pools"]


def _draw_variants(draw: Any, world: World) -> Variants:
    bare = world.bare(next(iter(world.pools)))
    foreign = copy.deepcopy(bare)
    Foreign(draw).add(foreign)
    if world.kind == "StatefulSet":
        for name in ("strategy", "progressDeadlineSeconds"):
            del foreign["spec"][name]
    reordered = copy.deepcopy(foreign)
    pods = reordered["spec"]["template"]["spec"]
    for name in _REORDERED:
        pods[name] = draw(st.permutations(pods[name]))
    for container in pods["containers"]:
        container["env"] = draw(st.permutations(container["env"]))
    return Variants(bare, foreign, reordered)


def batches(examples: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield the examples in groups."""
    for start in range(0, len(examples), size):
        yield examples[start : start + size]
