"""The objects of a hostile cluster do not change the answers of other clusters."""

import asyncio
import copy
import time
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError
from fleethook.engines.dispatch.explanation import explain
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import resolve
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from tests.engines.dispatch.builders import in_cluster, logical_cluster, request_of, store_of, workspace
from tests.engines.dispatch.worlds import CLUSTERS, RESOURCES, World, clusters, reviews, worlds
from tests.hypothesis_profiles import examples
from tests.waiting import NET

PHASES: tuple[Phase, ...] = ("mutating", "validating")
EVIL = "evil"
# Names and paths of honest clusters; some paths are unknown.
HONEST = (*CLUSTERS, "root", *(f"root:{name}" for name in CLUSTERS), "root:a:child", "root:nobody", "nobody")
# The paths of the hostile cluster's requests, which fill the caches.
HOSTILE = (EVIL, f"root:{EVIL}", f"{EVIL}:a", f"root:{EVIL}:b")

Question = tuple[str, Phase, dict[str, Any]]


def questions(*places: str) -> st.SearchStrategy[list[Question]]:
    return st.lists(st.tuples(st.sampled_from(places), st.sampled_from(PHASES), reviews()), min_size=1, max_size=3)


@st.composite
def claims(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return objects of a hostile cluster that contradict paths and the owners of clusters."""
    names = st.sampled_from([*CLUSTERS, "root", EVIL, "child", "cluster"])
    parent = draw(st.sampled_from(["", "root", *CLUSTERS]))
    made = [logical_cluster(EVIL, parent=parent, workspace=draw(names))]
    made += [workspace(EVIL, draw(names), draw(names)) for _ in range(draw(st.integers(0, 3)))]
    for resource in RESOURCES:
        if draw(st.booleans()):
            versions = [{"name": version} for version in draw(st.sampled_from([("v1",), ("v2", "v1"), ()]))]
            plural, _, group = resource.partition(".")
            spec = {"group": group, "names": {"plural": plural, "kind": "Widget"}, "versions": versions}
            made.append(in_cluster(EVIL, "apis.kcp.io/v1alpha1", "APIResourceSchema", f"v1.{resource}", spec=spec))
    return made


@st.composite
def hostile_objects(draw: st.DrawFn) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [*draw(clusters(EVIL)), *draw(claims())]
    for document in made:
        if draw(st.booleans()):
            document["metadata"]["annotations"]["kcp.io/path"] = draw(st.sampled_from(HONEST))
    return draw(st.permutations(made))


def honest_objects(documents: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the workspaces below root; the hostile one is their neighbour."""
    found = [one for name in CLUSTERS for one in documents[name]]
    for name in CLUSTERS:
        found += [workspace("root", name, name), logical_cluster(name, parent="root", workspace=name)]
    return [*found, workspace("root", EVIL, EVIL), logical_cluster("root")]


async def collect_results(world: World, question: Question) -> Any:
    """Return all results of a request: its cluster, the dispatch, the calls, the explanation."""
    where, phase, made = question
    found = resolve(world.store, where)
    world.calls.clear()
    dispatched = await world.dispatch(made, cluster=found.cluster, phase=phase)
    calls = tuple(world.calls)
    deadline = Deadline(time.monotonic() + NET)
    try:
        explained = msgspec.to_builtins(
            await explain(world.dispatcher, request_of(made), cluster=found.cluster, deadline=deadline)
        )
    except StatusError as error:
        explained = str(error)
    return found, dispatched.response, calls, explained


@settings(max_examples=examples(100))
@given(worlds, hostile_objects(), questions(*HONEST), questions(*HOSTILE), st.booleans())
def test_a_hostile_cluster_does_not_change_answers_of_others(
    documents: Any, hostile: Any, honest_questions: Any, hostile_questions: Any, hostile_first: Any
) -> None:
    async def run() -> None:
        honest = honest_objects(documents)
        alone = World(store_of(*honest))
        expected = [await collect_results(alone, question) for question in honest_questions]
        world = World(store_of(*hostile, *honest) if hostile_first else store_of(*honest))
        if not hostile_first:
            assert [await collect_results(world, question) for question in honest_questions] == expected
            for document in hostile:
                world.store.put(copy.deepcopy(document))
        for question in hostile_questions:
            await collect_results(world, question)
        assert [await collect_results(world, question) for question in honest_questions] == expected
        for document in hostile:
            world.store.remove(key_of(document))
        assert [await collect_results(world, question) for question in honest_questions] == expected

    asyncio.run(run())


@settings(max_examples=examples(30))
@given(worlds, hostile_objects(), questions(*HONEST), questions(*HOSTILE))
def test_concurrent_hostile_requests_do_not_change_answers(
    documents: Any, hostile: Any, honest_questions: Any, hostile_questions: Any
) -> None:
    async def run() -> None:
        honest = honest_objects(documents)
        alone, world = World(store_of(*honest)), World(store_of(*honest, *hostile))
        expected = [(await collect_results(alone, question))[1] for question in honest_questions]
        found = await asyncio.gather(
            *(
                world.dispatch(made, cluster=resolve(world.store, where).cluster, phase=phase)
                for where, phase, made in (*hostile_questions, *honest_questions, *hostile_questions)
            )
        )
        first = len(hostile_questions)
        assert [one.response for one in found[first : first + len(honest_questions)]] == expected

    asyncio.run(run())
