"""Interpreting and dispatching give the same answers, counts and log lines on both paths of a request."""

import asyncio
import contextlib
import json
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.fair_limits import LimitError
from tests.builders import workload
from tests.engines.dispatch.builders import configuration, review, webhook, widget
from tests.engines.dispatch.raw_reviews import NOT_UTF8, TOO_LARGE_NUMBERS, encode_review
from tests.hypothesis_profiles import cases, examples
from tests.server.direct_connections import NOBODY, SOMEBODY, Certificate, Outcome, ask, encode
from tests.server.dispatching_app import BY_ASGI, DIRECT, NAMED, NEVER, dispatching
from tests.server.notes import Notes


def _of(cluster: str, document: dict[str, Any]) -> dict[str, Any]:
    metadata = {**document["metadata"], "annotations": {"kcp.io/cluster": cluster}}
    return {**document, "metadata": metadata}


OF_A = b'{"metadata":{"annotations":{"kcp.io/cluster":"a"}},"spec":%b}'
GADGET = {**widget(), "kind": "Gadget"}
UNASKED = json.dumps(review(_of("a", workload()))).encode()
ASKED = json.dumps(review(_of("a", widget()))).encode()
ADMISSION = st.sampled_from([
    UNASKED, UNASKED, ASKED, json.dumps(review(workload())).encode(),
    json.dumps(review(workload(), old=workload(), operation="UPDATE")).encode(),
    json.dumps(review(old=_of("a", workload()), operation="DELETE")).encode(),
    json.dumps(review(_of("a", workload()), operation="CONNECT")).encode(),
    json.dumps(review(_of("somewhere", workload()))).encode(),
    json.dumps(review(_of("ws3", GADGET))).encode(), json.dumps(review(_of("ws4", GADGET))).encode(),
    json.dumps(review({**workload(), "metadata": {"name": "a", "annotations": 3}})).encode(),
    json.dumps(review({**workload(), "metadata": {"name": "a", "annotations": None}})).encode(),
    json.dumps(review(configuration("a", "mutating", webhook()))).encode(),
    json.dumps(review(_of("a", workload()), uid="")).encode(), UNASKED.replace(b'"operation": "CREATE"', b'"operation": 3'),
    UNASKED[:-1], b"{}", b"\xff",
    *(encode_review(OF_A % value) for value in (b"1", *NOT_UTF8, *TOO_LARGE_NUMBERS)),
    *(encode_review(b"null", old=OF_A % value, operation="DELETE") for value in NOT_UTF8),
    *(encode_review(**{member: NOT_UTF8[0]}) for member in ("old", "user", "options")),
    encode_review(b'{"metadata":null}'), encode_review(b'{"metadata":{},"metadata":null}'), encode_review(b"{}"), encode_review(b"[]"),
    encode_review(b'{"metadata":{"annotations":{"kcp.io/cluster":null}}}'), encode_review(dryRun=True),
])  # fmt: skip


def question(operation: str, document: Any = None, *, shape: str = "ExploreReview", **request: Any) -> bytes:
    subject = document or {**workload(), "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}}
    group, _, version = str(subject.get("apiVersion")).rpartition("/")
    given = {
        "uid": "u-1", "kind": {"group": group, "version": version, "kind": subject.get("kind")}, "name": "a",
        "namespace": "default", "operation": operation, "object": subject, **request,
    }  # fmt: skip
    return json.dumps({"apiVersion": "config.karmada.io/v1alpha1", "kind": shape, "request": given}).encode()


HEALTH = question("ExploreHealthy")
ROLLOUT = {
    "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "a", "generation": 1},
    "spec": {"replicas": 2, "template": {"spec": {"containers": []}}}, "status": {"observedGeneration": "1"},
}  # fmt: skip
QUESTIONS = st.sampled_from([
    HEALTH, HEALTH, question("InterpretHealth", shape="ResourceInterpreterContext"), question("ExploreReplica"),
    question("ExploreStatus"), question("ExploreDependencies"), question("ExploreReplicaRevising", replicas=7),
    question("ExploreReplicaRevising"), question("ExploreRetaining", observedObject=workload()), question("ExploreRetaining"),
    question("ExplorePacking"), question("ExploreStatusAggregating", aggregatedStatus=[]), question("ExploreSomething"),
    question("ExploreHealthy", ROLLOUT), question("ExploreReplica", ROLLOUT), question("ExploreHealthy", widget()),
    question("ExploreHealthy", {**workload(), "status": 3}), question("ExploreHealthy", {"kind": "Deployment"}),
    question("ExploreHealthy", uid=""), question("ExploreHealthy", kind={"group": "apps", "version": "v1", "kind": "X"}),
    HEALTH[:-1], b"{}", b"\xff", UNASKED,
])  # fmt: skip
HEADERS = st.lists(st.sampled_from([
    "X-Request-Id: r-1", "Fleethook-Hops: 1", "Authorization: Bearer of-nobody", "Authorization: Basic eA==",
    "Content-Type: text/plain", "Expect: 100-continue",
]), max_size=2)  # fmt: skip
ROUTES = st.sampled_from([
    "/clusters/a/mutate", "/clusters/a/mutate", "/clusters/a/validate?timeout=10s", "/clusters/a/explain", "/clusters/ws3/mutate",
    "/clusters/ws4/validate", "/clusters/root:org/mutate", "/clusters/nowhere/mutate", "/clusters//mutate", "/clusters/a/b/mutate",
    "/clusters/A_/mutate", "/clusters/a/none", "/clusters/{cluster}/mutate", "/clusters/%61/mutate", "/dispatch/mutate", "/dispatch/validate",
])  # fmt: skip
REQUESTS = st.one_of(
    st.builds(lambda body, headers, path: encode(body, *headers, path=path), ADMISSION, HEADERS, ROUTES),
    st.builds(
        lambda body, headers, path: encode(body, *headers, path=path), QUESTIONS, HEADERS,
        st.sampled_from(["/explore", "/interpret", "/explore?explain=1", "/explore-foo"]),
    ),
)  # fmt: skip


class World(NamedTuple):
    """The circumstances of some requests."""

    settings: dict[str, Any]
    certificate: Certificate | None
    is_full: bool
    """Whether the quota of cluster a is used up."""


WORLDS = st.builds(
    World,
    st.sampled_from([
        {}, {}, {"host": "0.0.0.0"}, NAMED,
        {"dispatch_as_kcp": True},
    ]),
    st.sampled_from([SOMEBODY, SOMEBODY, NOBODY, None]),
    st.integers(0, 5).map(lambda number: number == 5),
)  # fmt: skip


MET: Counter[str] = Counter()


@given(WORLDS, st.lists(REQUESTS, min_size=1, max_size=4), st.integers(0, 2000))
@settings(max_examples=examples(150))
def _compare_paths(world: World, requests: list[bytes], cut: int) -> None:
    # Each request in two reads, or in one.
    chunks = [part for request in requests for part in (request[:cut], request[cut:]) if part]
    by_asgi, direct = Notes(), Notes()

    async def run(notes: Notes, *, direct: bool) -> Outcome:
        app = dispatching(notes.add_line, max_connections=2, **world.settings)
        with contextlib.ExitStack() as stack:
            if world.is_full:
                stack.enter_context(app.engines["dispatch"].requests.hold("a"))
            stack.enter_context(notes.taken(app))
            outcome = await ask(app, chunks, direct=direct, certificate=world.certificate)
        assert (app.engines["dispatch"].requests.in_flight, app.metrics.in_flight, app.bodies.total) == (
            {},
            0,
            0,
        )
        return outcome

    expected, found = asyncio.run(run(by_asgi, direct=False)), asyncio.run(run(direct, direct=True))
    assert found[:2] == expected[:2]
    assert direct.texts == by_asgi.texts
    MET["answers at once"] += expected.writes - found.writes
    MET["connections"] += 1


def test_both_paths_answer_count_log_and_authorize_alike() -> None:
    MET.clear()
    _compare_paths()
    assert MET["connections"] >= examples(120), MET
    # A random draw: the number varies, and only has to show that the property met the direct path.
    assert MET["answers at once"] >= cases(50), MET


@pytest.mark.parametrize(
    ("request_bytes", "writes"),
    [
        (encode(UNASKED, path="/clusters/a/mutate"), DIRECT),
        (encode(UNASKED, path="/clusters/a/validate?timeout=3s"), DIRECT),
        (encode(UNASKED, path="/clusters/root:org/mutate"), DIRECT),
        (encode(UNASKED, path="/clusters/nowhere/mutate"), DIRECT),
        (encode(UNASKED, path="/dispatch/mutate"), DIRECT),
        (encode(ASKED, path="/clusters/a/mutate"), DIRECT),
        (encode(UNASKED, path="/clusters/a/explain"), BY_ASGI),
        (encode(UNASKED, path="/clusters/a/none"), BY_ASGI),
        (encode(HEALTH, path="/explore"), DIRECT),
        (encode(HEALTH, path="/interpret?explain=1"), DIRECT),
        (encode(question("ExploreHealthy", widget()), path="/explore"), DIRECT),
    ],
    ids=lambda value: None if isinstance(value, int) else value[:40].decode(),
)  # fmt: skip
async def test_a_review_is_answered_directly(request_bytes: bytes, writes: int) -> None:
    app = dispatching(**NAMED)
    for verb in ("mutate", "validate"):
        # Webhooks are compiled for the first request, which waits for that.
        await ask(app, [encode(ASKED, path=f"/clusters/a/{verb}")], direct=False, certificate=SOMEBODY)
    outcome = await ask(app, [request_bytes], direct=True, certificate=SOMEBODY)
    assert outcome.writes == writes, outcome.received
    assert outcome.received.startswith(b"HTTP/1.1 404" if b"/none" in request_bytes else b"HTTP/1.1 200")


async def test_a_changed_webhook_applies_to_the_next_review() -> None:
    lines: list[bytes] = []
    app = dispatching(lines.append)
    request = encode(json.dumps(review(workload())).encode(), path="/clusters/a/mutate")
    await ask(app, [request], direct=True)
    rules = [{"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]
    app.store.put(configuration("a", "mutating", webhook(rules=rules, matchConditions=NEVER)))
    await ask(app, [request, request], direct=True)
    assert [json.loads(line)["hooks"] for line in lines] == [0, 1, 1]


async def test_a_request_beyond_the_quota_is_refused_at_once() -> None:
    app = dispatching(max_connections=2)
    with app.engines["dispatch"].requests.hold("a"):
        with pytest.raises(LimitError), app.engines["dispatch"].requests.hold("a"):
            pass
        outcome = await ask(app, [encode(UNASKED, path="/clusters/a/mutate")], direct=True)
    assert b'"code":429' in outcome.received
    assert outcome.writes == DIRECT
