"""The pages about recorded reviews."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from app.asgi import INDEXES
from app.console.access import AccessError, User
from app.console.application import create_console
from app.console.context import ConsoleContext
from app.console.review_index import ReviewIndex
from app.console.review_replay import ReviewReplay
from app.model.gvk import GroupKind
from app.store import Store
from tests.builders import workload
from tests.console.recorded import objects, record_workloads, review
from tests.console.visits import HOSTS, console_of, visit
from tests.records.recordings import line, write

HOSTILE = "<script>alert(1)</script>\u202e\"'>"


class Bench:
    """A console with recordings, whose objects a test changes."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        self.store = Store(INDEXES)
        context = ConsoleContext(
            self.store, records=directory, command_source="--manifests objects",
            reviews=ReviewIndex(directory), replay=ReviewReplay(self.store), **fields,
        )  # fmt: skip
        self.context = context
        self.app = create_console(context, hosts=HOSTS)
        self.put("2.0")

    def put(self, tag: str) -> None:
        for document in objects(tag):
            self.store.put(document)

    async def get(self, path: str, status: int = 200, **query: Any) -> str:
        assert self.context.reviews is not None
        await self.context.reviews.wait()
        answer = await visit(self.app, path, query=urlencode(query))
        assert answer.status == status
        return answer.body.decode()


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    await record_workloads(tmp_path, workload(owners=[]))
    return Bench(tmp_path)


async def test_without_recordings_the_page_names_the_option() -> None:
    assert "start the console with --records DIR" in (await visit(console_of(), "/reviews")).body.decode()
    assert (await visit(console_of(), "/reviews/replay")).status == 404
    assert (await visit(console_of(), "/reviews/review", query="file=a&line=1")).status == 404


async def test_the_list_shows_reviews_with_verdicts_and_links(bench: Bench) -> None:
    body = await bench.get("/reviews")
    assert "2 reviews" in body
    assert "1 patched" in body
    assert "1 allowed" in body
    assert "/reviews/review?file=reviews.jsonl&amp;line=2" in body
    assert "fleethook replay" in body
    assert "--manifests objects" in body


async def test_a_search_is_in_the_url_and_in_the_command(bench: Bench) -> None:
    body = await bench.get("/reviews", verdict="patched", route="/mutate-apps-v1-deployment")
    assert "1 reviews" in body
    assert "<option selected>patched</option>" in body
    assert "--route /mutate-apps-v1-deployment" in body
    assert "No review matches." in await bench.get("/reviews", text="nothing")


async def test_one_review_shows_its_changes(bench: Bench) -> None:
    body = await bench.get("/reviews/review", file="reviews.jsonl", line=2)
    assert "/spec/template/spec/containers/0/image" in body
    assert "nginx:2.0" in body
    assert "And now?" in body
    assert "The outcome is the same" not in body


async def test_and_now_follows_the_objects(bench: Bench) -> None:
    place = {"file": "reviews.jsonl", "line": 2, "now": 1}
    assert "The outcome is the same." in await bench.get("/reviews/review", **place)
    bench.put("3.0")
    body = await bench.get("/reviews/review", **place)
    assert "The outcome differs" in body
    assert "nginx:3.0" in body


async def test_a_batch_is_a_table_of_changes(bench: Bench) -> None:
    body = await bench.get("/reviews/replay")
    assert "2 same, 0 changed" in body
    bench.put("3.0")
    body = await bench.get("/reviews/replay")
    assert "1 same, 1 changed" in body
    assert "YurtAppSet default/demo" in body
    assert "line=2&amp;now=1#now" in body
    assert "0 same, 1 changed" in await bench.get("/reviews/replay", verdict="patched")
    assert "0 same, 0 changed" in await bench.get("/reviews/replay", start=99)


async def test_each_changed_review_of_a_row_has_a_link(tmp_path: Path) -> None:
    await record_workloads(tmp_path, *(workload() for _ in range(4)))
    bench = Bench(tmp_path)
    bench.put("3.0")
    body = await bench.get("/reviews/replay")
    assert "All 5 reviews" in body
    _, _, listed = body.partition("<ol>")
    for number in range(2, 7):
        assert f"line={number}&amp;now=1#now" in listed


@pytest.mark.parametrize(
    "place", [{"file": "reviews.jsonl", "line": 1}, {"file": "../x", "line": 2}, {"file": "", "line": -1}]
)
async def test_a_place_without_a_review_is_not_found(bench: Bench, place: dict[str, Any]) -> None:
    assert "there is no review at line" in await bench.get("/reviews/review", 404, **place)


async def test_hostile_texts_of_recordings_stay_texts(tmp_path: Path) -> None:
    document = workload()
    document["metadata"] |= {"name": HOSTILE, "annotations": {HOSTILE: HOSTILE}}
    body = review(document, HOSTILE, name=HOSTILE, namespace=HOSTILE, kind={"group": HOSTILE, "kind": HOSTILE})
    status = {"code": 403, "reason": HOSTILE, "message": HOSTILE}
    answer = {"kind": "AdmissionReview", "response": {"allowed": False, "warnings": [HOSTILE], "status": status}}
    write(tmp_path / "a.jsonl", line(body, answer, cluster=HOSTILE, time=HOSTILE), b'{"' + HOSTILE.encode())
    bench = Bench(tmp_path)
    for path, query in (
        ("/reviews", {}),
        ("/reviews/review", {"file": "a.jsonl", "line": 2, "now": 1}),
        ("/reviews/replay", {}),
    ):
        shown = await bench.get(path, **query)
        assert "<script>alert" not in shown
        assert "&lt;script&gt;" in shown


class Clerk:
    """Permits the kinds of the section, and StatefulSets in one namespace."""

    needs_credentials = True

    async def authenticate(self, _: Any) -> User:
        return User("clerk")

    async def permits(self, _: User, group_kind: GroupKind, namespace: str) -> bool:
        if group_kind.kind in ("Deployment", "StatefulSet"):
            return group_kind.kind == "StatefulSet" and namespace == "default"
        return True


async def test_reviews_of_kinds_that_the_user_may_not_get_are_hidden(tmp_path: Path) -> None:
    stateful = {**workload(owners=[]), "kind": "StatefulSet"}
    await record_workloads(tmp_path, stateful)
    bench = Bench(tmp_path, authorizer=Clerk())
    for query in ({}, {"sort": "oldest"}, {"page": 2}, {"verdict": "patched"}):
        body = await bench.get("/reviews", **query)
        assert "0 reviews" in body
        assert "Deployment" not in body
    assert "0 same" in await bench.get("/reviews/replay")
    assert "may not get Deployment.apps" in await bench.get("/reviews/review", 403, file="reviews.jsonl", line=2)
    assert "StatefulSet" in await bench.get("/reviews/review", file="reviews.jsonl", line=3)
    assert issubclass(AccessError, Exception)
