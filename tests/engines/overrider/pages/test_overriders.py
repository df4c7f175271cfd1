import asyncio
import html
import json
import re
import shlex
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from fleethook.app import list_indexes
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.attention_lines import AttentionLine
from fleethook.console.console_server import create_console
from fleethook.console.context import ConsoleContext
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.engines.overrider.pages.overriders import (
    collect_documents,
    find_all,
    list_condition_lines,
    needs_attention,
)
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.findings_in_files import ManifestFinding
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.engines.overrider.subject.workload_owner import WORKLOAD_INDEXES
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from tests.builders import NEW_IMAGE, entry, image, overrider, patch, pool, rendered, workload, yurt_app_set
from tests.cli.commands import invoke
from tests.console.recorded import record_workloads
from tests.console.visitor import Visitor
from tests.console.visits import make_context
from tests.serving import EXAMPLES
from tests.waiting import NET

SET = yurt_app_set()
POOL = {"namespace": "default", "name": "demo", "subject": "YurtAppSet", "pool": "hangzhou", "kind": "Deployment"}
OVERRIDER = {"namespace": "default", "name": "demo1"}
MakeClient = Callable[..., Visitor]


@pytest.fixture
def make_client(tmp_path: Path) -> MakeClient:
    def make(*objects: dict[str, Any], reviews: ReviewIndex | None = None) -> Visitor:
        (tmp_path / "now.yaml").write_text(yaml.safe_dump_all(objects))
        store = Store([OVERRIDERS_BY_SUBJECT, *WORKLOAD_INDEXES.values()])
        source = ManifestSource([tmp_path], store)
        source.load()
        assert not source.errors
        context = ConsoleContext(store, manifests=source, command_source=f"-f {tmp_path}", reviews=reviews)
        return Visitor(create_console(context))

    return make


def read_text(page: str) -> str:
    """Return the text of a page: without tags, with single spaces."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", page)))


def links(page: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'<a [^>]*href="([^"]*)"', page)]


async def test_the_matrix_shows_each_pool_with_its_state(make_client: MakeClient) -> None:
    running = [workload(), rendered(workload(pool="beijing"), SET, NEW_IMAGE)]
    client = make_client(SET, NEW_IMAGE, *running)
    answer = await client.get("/overriders")
    assert answer.status == 200
    assert re.findall(r'class="cell (\w+) heat-1"[^>]*>(\S?1)</a>', answer.text) == [
        ("overridden", "1"),
        ("rolls", "↻1"),
    ]
    assert "replaces 2 pods" in answer.text
    assert "fleethook render -f" in read_text(answer.text)


def other_set(namespace: str) -> dict[str, Any]:
    one = yurt_app_set()
    one["metadata"] = {**one["metadata"], "namespace": namespace}
    return one


@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_the_command_of_a_page_prints_its_subject_and_pool_only(make_client: MakeClient, namespace: str) -> None:
    """Two subjects have the same name, in different namespaces."""
    client = make_client(SET, NEW_IMAGE, other_set("other"), workload())
    page = read_text((await client.get("/overriders/pool", **{**POOL, "namespace": namespace})).text)
    command = page.partition("The same on the command line: ")[2].partition(" Copy")[0]
    program, *words = shlex.split(command)
    assert program == "fleethook"
    printed = invoke(words).stdout
    others = {"default", "other"} - {namespace}
    assert "beijing" not in printed
    assert not [one for one in others if f"YurtAppSet {one}/demo" in printed]
    assert f"YurtAppSet {namespace}/demo, node pool hangzhou" in printed


async def test_each_cell_leads_to_its_diff_and_each_overrider_to_its_page(make_client: MakeClient) -> None:
    client = make_client(SET, NEW_IMAGE)
    page = (await client.get("/overriders")).text
    found = [one for one in links(page) if one.startswith(("/overriders/pool?", "/overriders/overrider?"))]
    assert len(found) == 3
    for one in found:
        assert (await client.get(one)).status == 200
    assert parse_qs(urlsplit(found[1]).query)["pool"] == ["beijing"]


async def test_a_url_filters_and_pages_the_matrix(make_client: MakeClient) -> None:
    client = make_client(yurt_app_set(pools=[pool(f"p{number:03}") for number in range(250)]))
    page = (await client.get("/overriders", columns="3", pool="P")).text
    assert "p060" in page
    assert "p059" not in page
    assert "/overriders?pool=P&columns=2" in links(page)
    none = read_text((await client.get("/overriders", pool="nowhere")).text)
    assert "No workload matches." in none


async def open_checked(client: Visitor, address: str, **parameters: str) -> str:
    """Return a page once the objects are checked."""
    while "being checked" in (page := (await client.get(address, **parameters)).text):
        await asyncio.sleep(0)
    return page


MISSING = overrider(entry("hangzhou", items=[image("nothing", "a:1")]))


async def test_findings_are_marked_at_their_overrider(make_client: MakeClient) -> None:
    client = make_client(SET, MISSING)
    before = (await client.get("/overriders")).text
    assert "The objects are being checked for findings." in before
    page = await open_checked(client, "/overriders")
    mark = re.search(r'href="([^"]*)" aria-label="1 finding"', page)
    assert mark is not None
    assert "unknown-container" in await open_checked(client, html.unescape(mark[1]))


async def test_the_page_of_a_pool_shows_the_last_reviews(make_client: MakeClient, tmp_path: Path) -> None:
    await record_workloads(tmp_path / "records")
    reviews = ReviewIndex(tmp_path / "records", patience=NET)
    await reviews.find()
    client = make_client(SET, NEW_IMAGE, workload(), reviews=reviews)
    page = (await client.get("/overriders/pool", **POOL)).text
    assert [one for one in links(page) if one.startswith("/reviews/review?")] == [
        "/reviews/review?file=reviews.jsonl&line=2"
    ]


async def test_a_pool_without_a_stored_workload_says_so(make_client: MakeClient) -> None:
    page = await make_client(SET, NEW_IMAGE).get("/overriders/pool", **POOL)
    assert "No workload of this node pool is stored." in page.text


async def test_a_parameter_with_an_unknown_value_has_its_default(make_client: MakeClient) -> None:
    parameters = {"state": "x", "layout": "<b>", "sort": "1", "page": "-3", "columns": "9" * 5_000}
    assert (await make_client(SET).get("/overriders", **parameters)).status == 200


async def test_the_diff_of_a_pool_names_the_entry_of_each_changed_line(make_client: MakeClient) -> None:
    page = (await make_client(SET, NEW_IMAGE).get("/overriders/pool", **POOL)).text
    (row,) = re.findall(r'<tr class="changed">(.*?)</tr>', page, re.DOTALL)
    assert read_text(row) == " 26 - image: nginx:1.0 26 - image: nginx:2.0 entries[0].items[0] "
    assert "--subject YurtAppSet/default/demo --pool hangzhou --output diff" in page
    everything = (await make_client(SET, NEW_IMAGE).get("/overriders/pool", **{**POOL, "all": "1"})).text
    assert "equal lines" in page
    assert "equal lines" not in everything


async def test_a_pool_that_cannot_be_rendered_shows_the_error(make_client: MakeClient) -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/nothing")]))
    page = read_text((await make_client(SET, broken).get("/overriders/pool", **POOL)).text)
    assert "The workload cannot be rendered: " in page
    assert "/spec/nothing" in page


@pytest.mark.parametrize(
    "missing", [{"name": "none"}, {"pool": "jinan"}, {"kind": "StatefulSet"}, {"subject": "Pod"}, {"kind": ""}]
)
async def test_a_missing_cell_is_an_error_page_with_a_way_back(
    make_client: MakeClient, missing: dict[str, str]
) -> None:
    answer = await make_client(SET).get("/overriders/pool", **{**POOL, **missing})
    assert answer.status == 404
    assert "/" in links(answer.text)


async def test_a_missing_overrider_is_an_error_page(make_client: MakeClient) -> None:
    answer = await make_client(SET).get("/overriders/overrider", **OVERRIDER)
    assert answer.status == 404
    assert "there is no YurtAppOverrider default/demo1" in read_text(answer.text)


async def test_the_page_of_an_overrider_shows_its_text_findings_and_conditions(make_client: MakeClient) -> None:
    condition = {"type": "Rendered", "status": "False", "reason": "DoesNotFit", "message": "no container"}
    client = make_client(SET, {**MISSING, "status": {"conditions": [condition]}})
    page = await open_checked(client, "/overriders/overrider", **OVERRIDER, at="entries[0].items[0]")
    text = read_text(page)
    assert "DoesNotFit: no container" in text
    assert "warning [unknown-container]" in text
    marked = re.findall(r'<tr class="changed">.*?<code>(.*?)</code>', page)
    assert [one.strip() for one in marked if "imageClaim" in one] == ["imageClaim: a:1"]
    assert "kind: YurtAppOverrider" in text
    assert (await client.get("/overriders/overrider", namespace="default", name="nothing")).status == 404


HOSTILE = [
    "<script>alert(1)</script>",
    "\"' onerror=alert(1) x='",
    "javascript:alert(1)",
    "{{ 7*7 }}",
    "a\u202eb",
    "</textarea><b>",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_data_of_clusters_is_text_on_each_page(make_client: MakeClient, text: str) -> None:
    subject = yurt_app_set(text, pools=[pool(text)])
    subject["metadata"]["namespace"] = text
    one = overrider(
        entry(text, items=[image(text, text)], patches=[patch("add", "/spec/template/metadata/labels/x", text), patch(text, text, text)]),
        name=text, subject={"apiVersion": SET["apiVersion"], "kind": "YurtAppSet", "name": text}, annotations={"a": text},
    )  # fmt: skip
    one["metadata"]["namespace"] = text
    client = make_client(subject, one)
    key = {"namespace": text, "name": text}
    for path, parameters in [
        ("/overriders", {}),
        ("/overriders", {"subject": text, "pool": text}),
        ("/overriders/pool", {**key, "subject": "YurtAppSet", "pool": text, "kind": "Deployment"}),
        ("/overriders/pool", {**key, "subject": text, "pool": text, "kind": text}),
        ("/overriders/overrider", {**key, "at": text}),
    ]:
        answer = await client.get(path, **parameters)
        assert answer.status in (200, 404)
        found = Tags(answer.text)
        assert found.scripts == {"/static/theme.js", "/static/main.js"}
        assert not [name for name in found.attributes if name.startswith("on")]
        assert not [value for value in found.addresses if not value.startswith(("/", "#"))]
        assert "b" not in found.names


class Tags(HTMLParser):
    """The tags of a page as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.scripts: set[str | None] = set()
        self.attributes: set[str] = set()
        self.addresses: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag == "script":
            self.scripts.add(dict(attrs).get("src"))
        self.addresses.update(
            value for name, value in attrs if name in ("href", "src", "action", "formaction") and value
        )


WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "default"}}
KEY = ObjectKey("", YURT_APP_OVERRIDER, "default", "o")


def overrider(*entries: Any, **members: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.openyurt.io/v1alpha1",
        "kind": "YurtAppOverrider",
        "metadata": {"name": "o", "namespace": "default"},
        "subject": {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppSet", "name": "demo"},
        "entries": list(entries),
        **members,
    }


def finding(field: str = "", *, code: str = "invalid", level: Any = "error", key: ObjectKey = KEY) -> ManifestFinding:
    return ManifestFinding(level, Finding(code, field, "wrong"), key, "cluster", 0)


def test_the_findings_are_those_of_the_command() -> None:
    source = ManifestSource([EXAMPLES], Store(list_indexes()))
    source.load()
    rows = json.loads(invoke(["lint", "-f", str(EXAMPLES), "--output", "json"]).stdout)
    expected = [(row["level"], row["code"], row["place"]) for row in rows if row["kind"].startswith("Yurt")]
    found = find_all(collect_documents(make_context(manifests=source)))
    assert expected
    assert sorted((one.level, one.finding.code, one.place) for one in found) == sorted(expected)


def test_workloads_are_not_checked(tmp_path: Path) -> None:
    assert [one.object["kind"] for one in collect_documents(make_context(yurt_app_set(), WORKLOAD))] == ["YurtAppSet"]
    (tmp_path / "a.yaml").write_text(json.dumps(WORKLOAD))
    source = ManifestSource([tmp_path], Store(list_indexes()))
    source.load()
    assert len(source.documents()) == 1
    assert collect_documents(make_context(manifests=source)) == []


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    time = "2026-01-01T12:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time}


def test_conditions_that_need_attention_are_a_line_each() -> None:
    conditions = [
        condition("Bound", "True", "SubjectFound"),
        condition("Rendered", "Unknown", "WaitingForOwner"),
        condition("Conflict", "True", "OpenYurtInterferes"),
        condition("Other", "False", "Foreign"),
        None,
    ]
    found = list_condition_lines([(KEY, overrider(status={"conditions": conditions}))])
    about, since = "YurtAppOverrider default/o", "2026-01-01 12:00:00"
    address = "/overriders/overrider?namespace=default&name=o"
    assert found == [
        AttentionLine("waiting", about, "WaitingForOwner: m", address, since),
        AttentionLine("warning", about, "OpenYurtInterferes: m", address, since),
    ]


@pytest.mark.parametrize("status", [None, 1, {"conditions": "x"}, {"conditions": [1]}])
def test_a_status_of_another_shape_has_no_line(status: Any) -> None:
    assert list_condition_lines([(KEY, overrider(status=status))]) == []


def test_a_part_of_an_overrider_that_changes_nothing_needs_no_attention() -> None:
    images = {"nginx": "nginx:1.0", "ngnix": "nginx:2.0"}
    items = [{"replicas": 2}, *({"image": {"containerName": a, "imageClaim": b}} for a, b in images.items())]
    patches = [{"operation": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.0"}]
    entries = [{"pools": ["*"], "items": items, "patches": patches}, {"pools": ["*"]}]
    documents = [yurt_app_set(), overrider(*entries)]
    found = find_all([Document(one, "a.yaml", 1) for one in documents])
    assert {one.finding.text.partition(": ")[0]: needs_attention(one.finding) for one in found} == {
        "entries[0].items[0]": False,
        "entries[0].items[1]": False,
        "entries[0].items[2]": True,
        "entries[0].patches[0]": False,
        "entries[1]": False,
    }
