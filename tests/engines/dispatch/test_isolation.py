"""Logical clusters do not affect each other."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from tests.engines.dispatch.builders import binding, configuration, definition, export, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow
from tests.engines.dispatch.worlds import CLUSTERS, World, clusters, reviews, world_of, worlds
from tests.hypothesis_profiles import examples

PHASES: tuple[Phase, ...] = ("mutating", "validating")


requests = st.lists(st.tuples(st.sampled_from(CLUSTERS), st.sampled_from(PHASES), reviews()), min_size=1, max_size=6)


changes = st.one_of(*(st.tuples(st.just(name), clusters(name)) for name in CLUSTERS))


def owners(documents: dict[str, list[dict[str, Any]]], cluster: str) -> set[str]:
    """Return the clusters that may own a schema of this one: those of its bindings."""
    bindings = [one for one in documents[cluster] if one["kind"] == "APIBinding"]
    return {one["status"]["apiExportClusterName"] for one in bindings}


@settings(max_examples=examples(150))
@given(worlds, requests, changes, requests)
def test_only_the_consumer_and_the_owner_affect_an_answer(documents: Any, first: Any, change: Any, second: Any) -> None:
    """Other clusters, earlier requests and changes do not count. Names are the same in all clusters."""

    async def run() -> None:
        everything = world_of(documents, *CLUSTERS)

        async def ask(made: Any) -> None:
            for cluster, phase, one in made:
                everything.calls.clear()
                found = await everything.dispatch(one, cluster=cluster, phase=phase)
                alone = world_of(documents, cluster, *owners(documents, cluster))
                expected = await alone.dispatch(one, cluster=cluster, phase=phase)
                assert everything.calls == alone.calls
                assert found.response == expected.response
                for call in everything.calls:
                    assert call.seen_as == cluster
                    assert call.owner in {cluster, *owners(documents, cluster)}
                    assert call.url.startswith(f"https://hooks.example.org/{call.owner}/{phase}")

        await ask(first)
        cluster, replacement = change
        for document in documents[cluster]:
            everything.store.remove(key_of(document))
        for document in replacement:
            everything.store.put(document)
        documents[cluster] = replacement
        await ask(second)

    asyncio.run(run())


@settings(max_examples=examples(50))
@given(worlds, requests)
def test_concurrent_requests_get_the_same_answers_as_sequential_ones(documents: Any, made: Any) -> None:
    async def run() -> None:
        together, alone = world_of(documents, *CLUSTERS), world_of(documents, *CLUSTERS)
        tasks = [together.dispatch(one, cluster=cluster, phase=phase) for cluster, phase, one in made]
        found = [one.response for one in await asyncio.gather(*tasks)]
        expected = [(await alone.dispatch(one, cluster=cluster, phase=phase)).response for cluster, phase, one in made]
        assert found == expected
        assert sorted(together.calls) == sorted(alone.calls)

    asyncio.run(run())


async def test_clusters_share_no_connections(front: Front, server: Webhooks) -> None:
    ports: dict[str, set[Any]] = {}

    def answer(sent: dict[str, Any]) -> dict[str, Any]:
        cluster = sent["request"]["object"]["metadata"]["annotations"]["kcp.io/cluster"]
        ports.setdefault(cluster, set()).add(server.peer)
        return allow(sent)

    server.answers["/w"] = answer
    hooks = [webhook(clientConfig=server.client_config("/w"))]
    store = store_of(*(configuration(cluster, "validating", *hooks) for cluster in CLUSTERS))
    for _ in range(3):
        for cluster in CLUSTERS:
            assert (await front.dispatch(store, review(), cluster=cluster)).response.allowed
    assert [len(ports[cluster]) for cluster in CLUSTERS] == [1, 1, 1]
    assert len(set.union(*ports.values())) == 3


async def test_consumers_of_one_owner_may_have_different_schemas() -> None:
    """The cache of the owner's webhooks distinguishes the versions of a consumer's schema."""
    rules = [{"apiGroups": ["example.org"], "apiVersions": ["v2"], "resources": ["widgets"], "operations": ["*"]}]
    documents = [export("owner", "widgets.example.org"), configuration("owner", "validating", webhook(rules=rules))]
    for cluster, versions in (("a", ("v1", "v2")), ("b", ("v1",))):
        bound = binding(cluster, "owner", "widgets.example.org")
        bound["status"]["boundResources"][0]["schema"]["name"] = f"for-{cluster}"
        schema = definition("owner", "widgets.example.org", *versions)
        schema |= {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema"}
        schema["metadata"]["name"] = f"for-{cluster}"
        documents += [bound, schema]
    world = World(store_of(*documents))
    for cluster in ("a", "b", "a", "b"):
        assert (await world.dispatch(review(), cluster=cluster, phase="validating")).response.allowed
    assert [call.seen_as for call in world.calls] == ["a", "a"]
