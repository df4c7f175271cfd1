"""The pages about recorded reviews."""

import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.app import list_indexes
from fleethook.cluster.store import Store
from fleethook.console.console_server import create_console
from fleethook.console.context import ConsoleContext
from fleethook.console.pages.reviews import SORTS, ReviewQuery, encode_query, find_reviews, list_choices, parse_query
from fleethook.console.reviews import review_detail_and_replay
from fleethook.console.reviews.review_detail_and_replay import ReviewReplay
from fleethook.console.reviews.review_index import VERDICTS, ReviewIndex, ReviewSummary
from tests.builders import workload
from tests.console.recorded import objects, record_workloads, review
from tests.console.visitor import Visitor
from tests.console.visits import console_of, visit
from tests.engines.dispatch.builders import binding, configuration, export, webhook
from tests.engines.dispatch.builders import review as widget_review
from tests.recordings.recordings import line, write
from tests.recordings.replaying import recording
from tests.waiting import NET

HOSTILE = "<script>alert(1)</script>\u202e\"'>"


class Bench:
    """A console with recordings, whose objects a test changes."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        self.store = Store(list_indexes())
        context = ConsoleContext(
            self.store, records=directory, command_source="-f objects",
            reviews=ReviewIndex(directory, patience=NET), replay=ReviewReplay(self.store), **fields,
        )  # fmt: skip
        self.context = context
        self.app = create_console(context)
        self.visitor = Visitor(self.app)
        self.put("2.0")

    def put(self, tag: str) -> None:
        for document in objects(tag):
            self.store.put(document)

    async def get(self, path: str, status: int = 200, **query: Any) -> str:
        assert self.context.reviews is not None
        await self.context.reviews.find()
        answer = await visit(self.app, path, query=urlencode(query))
        assert answer.status == status
        return answer.body.decode()

    async def start(self, action: str = "start", **query: Any) -> str:
        """Send the form of the page, and return the page that it leads to."""
        assert self.context.reviews is not None
        await self.context.reviews.find()
        visitor = self.visitor
        sent = await visitor.post("/reviews/replay", {"action": action}, **query)
        assert sent.status == 303
        return (await visitor.get(sent.headers["location"])).text


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    await record_workloads(tmp_path, workload(owners=[]))
    return Bench(tmp_path)


async def test_without_recordings_the_page_names_the_option() -> None:
    body = (await visit(console_of(), "/reviews")).body.decode()
    assert "start the console with --records DIR" in body
    assert "fleethook serve --record DIR" in body
    for text in ("<form", "The slowest took", "Page 1 of 1"):
        assert text not in body.partition("<main")[2].partition("</main>")[0]
    assert (await visit(console_of(), "/reviews/replay")).status == 404
    assert (await visit(console_of(), "/reviews/review", query="file=a&line=1")).status == 404


async def test_an_empty_directory_names_the_command_that_fills_it(tmp_path: Path) -> None:
    reviews = ReviewIndex(tmp_path, patience=NET)
    await reviews.find()
    body = (await visit(console_of(reviews=reviews, records=tmp_path), "/reviews")).body.decode()
    assert f"fleethook serve --record {tmp_path}" in body
    assert "No review matches." not in body


async def test_the_list_shows_reviews_with_verdicts_and_links(bench: Bench) -> None:
    body = await bench.get("/reviews")
    assert "2 reviews" in body
    assert "1 patched" in body
    assert "1 allowed" in body
    assert "/reviews/review?file=reviews.jsonl&amp;line=2" in body
    assert "fleethook replay" in body
    assert "-f objects" in body


async def test_a_search_is_in_the_url_and_in_the_command(bench: Bench) -> None:
    body = await bench.get("/reviews", verdict="patched", route="/mutate-apps-v1-deployment")
    assert "1 review:" in body
    assert "<option selected>patched</option>" in body
    assert "--route /mutate-apps-v1-deployment" in body
    assert "No review matches." in await bench.get("/reviews", text="nothing")


async def test_one_review_shows_its_changes(bench: Bench) -> None:
    body = await bench.get("/reviews/review", file="reviews.jsonl", line=2)
    assert "/spec/template/spec/containers/0/image" in body
    assert "nginx:2.0" in body
    assert "And now?" in body
    assert "The outcome is the same" not in body


def list_links(body: str) -> dict[str, str]:
    """Return the links of the content by their texts."""
    found = re.findall(r'<a href="([^"]*)"><bdi>(.*?)</bdi></a>', body.partition("<main")[2])
    return {text: html.unescape(address) for address, text in found}


async def test_a_review_leads_to_its_workload_and_overrider(bench: Bench) -> None:
    assert list_links(await bench.get("/reviews/review", file="reviews.jsonl", line=2)) == {}
    bench.store.put(workload())
    assert list_links(await bench.get("/reviews/review", file="reviews.jsonl", line=2)) == {
        "Deployment default/demo-hangzhou-x":
            "/overriders/pool?namespace=default&name=demo&subject=YurtAppSet&pool=hangzhou&kind=Deployment",
        "YurtAppOverrider default/demo1": "/overriders/overrider?namespace=default&name=demo1",
    }  # fmt: skip


@pytest.mark.parametrize("route", ["mutate", "validate"])
async def test_a_review_leads_to_the_configurations_of_the_webhooks_that_were_called(
    tmp_path: Path, route: str
) -> None:
    body = {**widget_review(), "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    asked = {"kind": "webhook", "name": "w.example.org", "configuration": "hooks", "cluster": "ws1", "key": "k"}
    answer = {"kind": "AdmissionReview", "response": {"allowed": True}}
    write(tmp_path / "a.jsonl", line(body, answer, route=f"/clusters/ws3/{route}", cluster="ws3", calls=[asked]))
    bench = Bench(tmp_path)
    for phase in ("mutating", "validating"):
        bench.store.put(configuration("ws1", phase, webhook("w.example.org")))
    kind = {"mutate": "Mutating", "validate": "Validating"}[route]
    assert list_links(await bench.get("/reviews/review", file="a.jsonl", line=2)) == {
        "webhook hooks/w.example.org":
            f"/dispatch/object?choice=ws1%2Fadmissionregistration.k8s.io%2F{kind}WebhookConfiguration%2F%2Fhooks",
    }  # fmt: skip


async def test_a_recorded_explanation_is_a_structure_with_its_json_on_demand(tmp_path: Path) -> None:
    hook = configuration("ws1", "validating", webhook("w.example.org"))
    async with recording(
        hook, binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org")
    ) as made:
        await made.ask("/clusters/ws3/explain", widget_review())
        (tmp_path / "reviews.jsonl").write_bytes(made.text())
    body = await Bench(tmp_path).get("/reviews/review", file="reviews.jsonl", line=2)
    text = " ".join(re.sub(r"<[^>]*>", " ", body.partition("<main")[2]).split())
    assert "configuration webhook" in text
    assert "hooks w.example.org" in text
    assert re.search(r"<details><summary>JSON</summary>.*&#34;webhook&#34;", body, re.DOTALL)
    assert "The answer changes nothing" not in body
    assert "{&#34;" not in body.partition("<details>")[0]


async def test_and_now_follows_the_objects(bench: Bench) -> None:
    place = {"file": "reviews.jsonl", "line": 2, "now": 1}
    assert "The outcome is the same." in await bench.get("/reviews/review", **place)
    bench.put("3.0")
    body = await bench.get("/reviews/review", **place)
    assert "The outcome differs" in body
    assert "nginx:3.0" in body


async def test_a_batch_is_a_table_of_changes(bench: Bench) -> None:
    body = await bench.get("/reviews/replay")
    assert "All asked: 2 reviews." in body
    assert "2 same, 0 changed" in body
    assert "No outcome differs." in body
    bench.put("3.0")
    body = await bench.get("/reviews/replay")
    assert "2 same, 0 changed" in body
    assert "The objects have changed since the start" in body
    body = await bench.start()
    assert "1 same, 1 changed" in body
    assert "The objects have changed" not in body
    assert "YurtAppSet default/demo" in body
    assert "line=2&amp;now=1#now" in body
    body = await bench.start(verdict="patched")
    assert "0 same, 1 changed" in body
    assert "it has no options for the other filters" in body
    assert "0 same, 0 changed" in await bench.get("/reviews/replay", text="nothing")


async def test_each_changed_review_has_a_link(tmp_path: Path) -> None:
    await record_workloads(tmp_path, *(workload() for _ in range(4)))
    bench = Bench(tmp_path)
    bench.put("3.0")
    links = re.findall(r"<li><a href=\"[^\"]*line=(\d)&amp;now=1#now", await bench.get("/reviews/replay"))
    assert links == ["2", "3", "4", "5", "6"]


async def test_the_largest_groups_of_changes_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_detail_and_replay, "MAX_GROUPS", 1)
    await record_workloads(tmp_path, workload())
    answer = {"kind": "AdmissionReview", "response": {"allowed": False, "status": {"code": 403, "message": "no"}}}
    write(tmp_path / "a.jsonl", *(line(review(workload(), f"d-{number}"), answer) for number in range(3)))
    bench = Bench(tmp_path)
    bench.put("3.0")
    body = await bench.get("/reviews/replay")
    assert "3 reviews of" in body
    assert "2 reviews of" not in body
    assert "1 further kinds of changes are left out." in body


async def test_a_batch_goes_on_with_each_request_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_detail_and_replay, "REVIEWS_IN_A_REQUEST", 2)
    await record_workloads(tmp_path, *(workload() for _ in range(9)))
    bench = Bench(tmp_path)
    body = await bench.start()
    assert "2 of 10 reviews asked." in body
    assert "data-hx-get" in body
    assert "4 of 10 reviews asked." in await bench.get("/reviews/replay")
    for body in (await bench.start(action="stop"), await bench.get("/reviews/replay")):
        assert "Stopped after 4 of 10 reviews." in body
        assert 'data-hx-get="/reviews' not in body
    for number in (2, 4, 6, 8):
        body = await (bench.start() if number == 2 else bench.get("/reviews/replay"))
        assert f"{number} of 10 reviews asked." in body
    body = await bench.get("/reviews/replay")
    assert "All asked: 10 reviews." in body
    assert "10 same" in body


async def test_two_pages_with_different_searches_do_not_drop_each_others_jobs(bench: Bench) -> None:
    await bench.start(verdict="patched")
    await bench.start()
    body = await bench.get("/reviews/replay", verdict="patched", resume=1)
    assert "The result is gone" in body
    assert 'data-hx-get="/reviews' not in body
    assert "All asked: 2 reviews." in await bench.get("/reviews/replay", resume=1)


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


def summary(number: int = 0, **members: Any) -> ReviewSummary:
    known: dict[str, Any] = {
        "file": 0, "line": number, "time": f"2026-11-22T10:00:{number:02}.000000Z", "route": "/r", "cluster": "",
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": f"web-{number}", "operation": "CREATE",
        "verdict": "allowed", "seconds": number / 1000, "uid": f"u-{number}",
    }  # fmt: skip
    return ReviewSummary(**{**known, **members})


def lines(query: ReviewQuery, *reviews: ReviewSummary) -> list[int]:
    return [one.line for one in find_reviews(reviews, query)]


REVIEWS = [
    summary(1, route="/a", verdict="patched"),
    summary(2, kind="StatefulSet", cluster="root:a"),
    summary(3, name="Other", verdict="denied", uid="abc"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ReviewQuery(), [3, 2, 1]),
        (ReviewQuery(route="/a"), [1]),
        (ReviewQuery(kind="StatefulSet"), [2]),
        (ReviewQuery(cluster="root:a"), [2]),
        (ReviewQuery(verdict="denied"), [3]),
        (ReviewQuery(text="SHOP/OTHER"), [3]),
        (ReviewQuery(text="abc"), [3]),
        (ReviewQuery(text="ABC"), []),
        (ReviewQuery(text="web"), [2, 1]),
        (ReviewQuery(slower=2), [3, 2]),
        (ReviewQuery(since="2026-11-22T10:00:02"), [3, 2]),
        (ReviewQuery(until="2026-11-22T10:00:02"), [1]),
        (ReviewQuery(sort="oldest"), [1, 2, 3]),
        (ReviewQuery(sort="slowest", verdict=""), [3, 2, 1]),
        (ReviewQuery(kind="Deployment", text="web"), [1]),
    ],
)
def test_a_search_finds_the_matching_reviews_in_its_order(query: ReviewQuery, found: list[int]) -> None:
    assert lines(query, *REVIEWS) == found


TIMES = st.text(st.characters(codec="utf-8", exclude_characters=" "), max_size=9).map(str.strip)


@given(
    st.builds(
        ReviewQuery,
        route=st.text(max_size=9).map(str.strip), kind=st.text(max_size=9).map(str.strip),
        text=st.text(max_size=9).map(str.strip), cluster=st.text(max_size=9).map(str.strip),
        verdict=st.sampled_from(["", *VERDICTS]), slower=st.integers(0, 9999).map(float),
        since=TIMES, until=TIMES,
        sort=st.sampled_from(SORTS), page=st.integers(1, 99),
    )
)  # fmt: skip
def test_a_url_keeps_its_search(query: ReviewQuery) -> None:
    from urllib.parse import parse_qsl  # noqa: PLC0415 - beside its one use

    assert parse_query(dict(parse_qsl(encode_query(query), keep_blank_values=True))) == query


def test_the_choices_are_the_values_that_occur() -> None:
    choices = list_choices([*REVIEWS, summary(4, kind="")])
    assert choices == (["/a", "/r"], ["Deployment", "StatefulSet"], ["root:a"])
