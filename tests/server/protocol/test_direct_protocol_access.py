"""Dispatching in the protocol permits no caller, path or review that the ASGI path would refuse."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook
from fleethook.cluster.apiserver_connection import Connection
from tests.engines.dispatch.raw_reviews import encode_review
from tests.server.direct_connections import NOBODY, SOMEBODY, Certificate, Outcome, ask, encode
from tests.server.dispatching_app import DIRECT, NAMED, dispatching
from tests.server.notes import Notes
from tests.server.reviewer import ACCESS_REVIEWS, TOKEN_REVIEWS, Reviewer

TOKEN = "an-opaque-token-of-alice"
OPEN: dict[str, Any] = {"host": "0.0.0.0"}
"""An address of other machines, and no source that could review a token: no caller may dispatch."""
STRANGER: Certificate = {"subject": ((("commonName", "somebody-else"),),)}
REVIEW = encode_review(b'{"metadata":{"annotations":{"kcp.io/cluster":"a"}}}')
ODD_PATHS = [
    "/clusters/%61/mutate", "/clusters/a%2fb/mutate", "/clusters/a%2Fmutate", "/clusters/a/%6dutate", "/%63lusters/a/mutate",
    "/clusters/root%3Aorg/mutate", "/clusters/%2561/mutate", "/clusters/a%/mutate", "/clusters/a%00/mutate", "/clusters/%c3%a4/mutate",
    "/clusters/{cluster}/mutate", "/clusters/%7Bcluster%7D/mutate", "/clusters/a/{cluster}/mutate", "/clusters//mutate", "/clusters/mutate",
    "//clusters/a/mutate", "/clusters/a//mutate", "/clusters/a/mutate/", "/clusters/a/mutate;x", "/clusters/a/mutate#x", "/clusters/*/mutate",
    "/clusters/a/../ws3/mutate", "/clusters/../dispatch/mutate", "/clusters/a/mutate?cluster=ws3", "/clusters/system:admin/mutate",
    "/CLUSTERS/a/mutate", "/dispatch%2Fmutate", "/dispatch/%6dutate", "https://localhost/clusters/a/mutate",
]  # fmt: skip


async def ask_both(
    request: bytes, *, certificate: Certificate | None = None, **settings: Any
) -> tuple[Outcome, Outcome]:
    """Return the outcomes of a request by ASGI and in the protocol; their log lines and counts are the same."""
    outcomes, texts = [], []
    for direct in (False, True):
        notes = Notes()
        app = dispatching(notes.add_line, **settings)
        with notes.taken(app):
            outcomes.append(await ask(app, [request], direct=direct, certificate=certificate))
        texts.append(notes.texts)
        assert (app.engines["dispatch"].requests.in_flight, app.metrics.in_flight, app.bodies.total) == (
            {},
            0,
            0,
        )
    assert texts[0] == texts[1]
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("path", ODD_PATHS)
async def test_both_paths_read_a_path_alike(path: str) -> None:
    by_asgi, direct = await ask_both(encode(REVIEW, path=path), **NAMED, certificate=SOMEBODY)
    assert direct.received == by_asgi.received
    if "%" in path:
        assert direct.writes == by_asgi.writes, "uvicorn decodes the path"


@pytest.mark.parametrize("cluster", ["a/b", "*", "{cluster}", "", "A"])
async def test_a_text_that_names_no_cluster_is_refused_on_both_paths(cluster: str) -> None:
    by_asgi, direct = await ask_both(encode(REVIEW, path=f"/clusters/{cluster}/mutate"))
    assert direct.received == by_asgi.received
    assert direct.received.startswith(b"HTTP/1.1 404 ")
    assert f"'{cluster}' is not the name or the path of a logical cluster".encode() in direct.received


@pytest.mark.parametrize(
    ("settings", "certificate", "path", "status"),
    [
        (OPEN, None, "/clusters/a/mutate", b"401 "),
        (OPEN, SOMEBODY, "/clusters/a/mutate", b"401 "),
        (NAMED, None, "/clusters/a/mutate", b"401 "),
        (NAMED, NOBODY, "/clusters/a/mutate", b"401 "),
        (NAMED, STRANGER, "/clusters/a/validate", b"401 "),
        (NAMED, SOMEBODY, "/clusters/a/mutate", b"200 "),
        (NAMED, NOBODY, "/dispatch/mutate", b"403 "),
        (NAMED, STRANGER, "/dispatch/validate", b"403 "),
        (NAMED, SOMEBODY, "/dispatch/mutate", b"200 "),
        ({}, SOMEBODY, "/dispatch/mutate", b"404 "),
    ],
)
async def test_both_paths_permit_the_same_callers(
    settings: dict[str, Any], certificate: Certificate | None, path: str, status: bytes
) -> None:
    for token in ([], [f"Authorization: Bearer {TOKEN}"]):
        by_asgi, direct = await ask_both(encode(REVIEW, *token, path=path), certificate=certificate, **settings)
        assert direct.received == by_asgi.received
        assert direct.received.startswith(b"HTTP/1.1 " + status)
        assert direct.writes == DIRECT


@pytest.fixture
def reviewer(monkeypatch: pytest.MonkeyPatch) -> Reviewer:
    made = Reviewer()
    made.users[TOKEN] = {"username": "alice"}
    made.rights.add(("alice", "a", "clusters/mutate"))

    async def answer(_: Connection, *arguments: Any, **rest: Any) -> Any:
        return await made.post(*arguments, **rest)

    monkeypatch.setattr(Connection, "json", answer)
    return made


async def ask_with(app: Fleethook, token: str, path: str = "/clusters/a/mutate", *, direct: bool = True) -> Outcome:
    return await ask(app, [encode(REVIEW, f"Authorization: Bearer {token}", path=path)], direct=direct)


async def test_both_paths_share_cached_token_reviews(reviewer: Reviewer, tmp_path: Path) -> None:
    lines: list[bytes] = []
    app = dispatching(lines.append, kubeconfig=tmp_path / "none", **OPEN)
    first, second = [await ask_with(app, TOKEN) for _ in range(2)]
    assert second.received == first.received
    assert (first.writes, second.writes) == (DIRECT, DIRECT)
    assert [json.loads(line)["caller"] for line in lines] == ["alice", "alice"]
    first, second = [await ask_with(app, "of-nobody") for _ in range(2)]
    assert second.received == first.received
    assert b"401 Unauthorized" in second.received
    assert (first.writes, second.writes) == (DIRECT, DIRECT)
    assert (reviewer.count(TOKEN_REVIEWS), reviewer.count(ACCESS_REVIEWS)) == (2, 1)


@pytest.mark.parametrize("path", ["/clusters/a/validate", "/clusters/ws3/mutate", "/clusters/root/mutate"])
async def test_a_judged_token_permits_no_other_route_or_cluster(reviewer: Reviewer, tmp_path: Path, path: str) -> None:
    app = dispatching(kubeconfig=tmp_path / "none", **OPEN)
    assert b"200 OK" in (await ask_with(app, TOKEN)).received
    for _ in range(2):
        outcome = await ask_with(app, TOKEN, path)
        assert b"403 Forbidden" in outcome.received
        assert outcome.writes == DIRECT
    assert reviewer.count(ACCESS_REVIEWS) == 2


async def test_a_path_of_workspaces_needs_the_right_in_the_cluster_that_it_leads_to(
    reviewer: Reviewer, tmp_path: Path
) -> None:
    app = dispatching(kubeconfig=tmp_path / "none", **OPEN)
    await ask_with(app, TOKEN)
    assert b"200 OK" in (await ask_with(app, TOKEN, "/clusters/root:org/mutate")).received
    reviewer.rights.clear()
    assert b"403 Forbidden" in (await ask_with(app, TOKEN, "/clusters/root:org/validate")).received


async def test_a_review_before_the_objects_are_read_waits_for_them() -> None:
    lines: list[bytes] = []
    app = dispatching(lines.append)
    app.engines["dispatch"].synced.clear()

    async def read() -> None:
        await asyncio.sleep(0)
        assert not lines
        app.engines["dispatch"].synced.set()

    reading = asyncio.create_task(read())
    outcome = await ask(app, [encode(REVIEW, path="/clusters/a/mutate")], direct=True)
    await reading
    assert b'"allowed":true' in outcome.received
    assert outcome.writes == DIRECT


async def test_a_returned_review_is_refused_at_once() -> None:
    request = encode(REVIEW, "Fleethook-Hops: 1", path="/clusters/a/mutate")
    by_asgi, direct = await ask_both(request)
    assert direct.received == by_asgi.received
    assert b'"code":508' in direct.received
    assert direct.writes == DIRECT
