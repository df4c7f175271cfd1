import html
import re
import shlex
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import yaml

from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import Store
from fleethook.console.context import ConsoleContext
from fleethook.console.process import create_console
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.engines.overrider.pages.edit_report import MAX_TEXT_BYTES, format_overrider
from fleethook.engines.overrider.subject.owner_index import OVERRIDERS_BY_SUBJECT, WORKLOAD_INDEXES
from tests.builders import NEW_IMAGE, entry, image, node_pool, overrider, patch, pool, rendered, workload, yurt_app_set
from tests.cli.commands import invoke
from tests.console.recorded import record_workloads
from tests.console.visitor import Page, Visitor

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
        return Visitor(create_console(context, hosts=None))

    return make


def read_text(page: str) -> str:
    """Return the text of a page: without tags, with single spaces."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", page)))


def links(page: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'<a [^>]*href="([^"]*)"', page)]


async def type_text(client: Visitor, text: str, *, path: str = "/overriders/edit", **fields: str) -> Page:
    page = await client.get("/overriders/edit", **OVERRIDER)
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert token is not None
    return await client.post(path, {"csrf_token": token[1], "text": text, **fields}, **OVERRIDER)


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


@pytest.mark.parametrize(
    ("query", "printed", "left_out"),
    [
        ({}, {"YurtAppSet default/demo, node pool hangzhou", "YurtAppSet other/demo, node pool beijing"}, set()),
        ({"subject": "default/demo"}, {"YurtAppSet default/demo, node pool hangzhou"}, {"YurtAppSet other/"}),
        (
            {"subject": "default/demo", "pool": "hangzhou", "layout": "list"},
            {"YurtAppSet default/demo, node pool hangzhou"},
            {"YurtAppSet other/", "beijing"},
        ),
    ],
)
async def test_the_command_of_the_matrix_prints_its_workloads_only(
    make_client: MakeClient, query: Any, printed: set[str], left_out: set[str]
) -> None:
    client = make_client(SET, NEW_IMAGE, other_set("other"), {**NEW_IMAGE, "metadata": other_set("other")["metadata"]})
    page = read_text((await client.get("/overriders", **query)).text)
    command = page.partition("The same on the command line: ")[2].partition(" Copy")[0]
    output = invoke(shlex.split(command)[1:]).stdout
    assert {one for one in printed if one in output} == printed
    assert not [one for one in left_out if one in output]


@pytest.mark.parametrize(
    "query",
    [
        {"subject": "default/demo", "state": "overridden"},
        {"subject": "demo"},
        {"subject": "default/demo", "layout": "list"},
        {"subject": "default/demo", "pool": "p-00"},
        {"subject": "default/demo", "pool": "p-00", "groups": "p"},
    ],
)
async def test_a_command_that_prints_more_says_so(make_client: MakeClient, query: Any) -> None:
    subject = yurt_app_set(pools=[pool(f"p-{number:03}") for number in range(250)])
    page = read_text((await make_client(subject, NEW_IMAGE, other_set("other")).get("/overriders", **query)).text)
    assert "All workloads on the command line: fleethook render" in page
    assert "The same on the command line" not in page


async def test_each_cell_leads_to_its_diff_and_each_overrider_to_the_editor(make_client: MakeClient) -> None:
    client = make_client(SET, NEW_IMAGE)
    page = (await client.get("/overriders")).text
    found = [one for one in links(page) if one.startswith(("/overriders/pool?", "/overriders/edit?"))]
    assert len(found) == 3
    for one in found:
        assert (await client.get(one)).status == 200
    assert parse_qs(urlsplit(found[1]).query)["pool"] == ["beijing"]


async def test_a_url_groups_node_pools_by_a_label(make_client: MakeClient) -> None:
    pools = [node_pool(name, {"region": "east"}) for name in ("beijing", "hangzhou")]
    client = make_client(SET, *pools)
    assert 'class="group"' not in (await client.get("/overriders")).text
    page = (await client.get("/overriders", by="region")).text
    assert re.findall(r'class="group".*?<bdi>(.*?)</bdi>', page) == ["east"]
    assert "/overriders?groups=east&by=region" in links(page)


async def test_a_url_filters_and_pages_the_list(make_client: MakeClient) -> None:
    client = make_client(yurt_app_set(pools=[pool(f"p{number:03}") for number in range(250)]))
    page = (await client.get("/overriders", layout="list", page="3", pool="P")).text
    assert "p249" in page
    assert "p199" not in page
    assert "/overriders?pool=P&layout=list&page=2" in links(page)
    none = read_text((await client.get("/overriders", pool="nowhere")).text)
    assert "No workload matches." in none


async def test_a_filter_by_state_shows_the_cells_that_the_scan_has_found(make_client: MakeClient) -> None:
    client = make_client(SET, NEW_IMAGE, workload())
    for _ in range(1_000):
        page = (await client.get("/overriders", state="rolls", layout="list")).text
        if "All states are known" in page:
            break
    assert re.findall(r'class="state state-(\w+)">[^<]*</span></td>', page) == ["rolls"]
    assert re.search(r"would roll</span> 1", page)


async def open_checked(client: Visitor, address: str, **parameters: str) -> str:
    """Return a page once the objects are checked, which the page of findings waits for."""
    await client.get("/overriders/findings")
    return (await client.get(address, **parameters)).text


MISSING = overrider(entry("hangzhou", items=[image("nothing", "a:1")]))


async def test_findings_are_marked_at_their_cell_pool_and_overrider(make_client: MakeClient) -> None:
    client = make_client(SET, MISSING)
    before = (await client.get("/overriders")).text
    assert "The objects are being checked for findings." in before
    page = await open_checked(client, "/overriders")
    headers = dict(re.findall(r'<th scope="col" title="(\w+)" aria-label="\w+"(.*?)</th>', page, re.DOTALL))
    assert 'aria-label="1 finding"' in headers["hangzhou"]
    assert "finding" not in headers["beijing"]
    cells = re.findall(r'<a class="cell [^>]*pool=(\w+)[^>]*', page)
    marked = re.findall(r'<a class="cell [^"]*marked-warning"[^>]*pool=(\w+)[^>]*findings: 1[^>]*', page)
    assert (cells, marked) == (["beijing", "hangzhou"], ["hangzhou"])
    marks = [one for one in links(page) if one.startswith("/overriders/findings?")]
    assert marks == [
        "/overriders/findings?pool=hangzhou",
        "/overriders/findings?text=YurtAppOverrider+default%2Fdemo1%3A",
    ]
    for one in marks:
        assert "unknown-container" in (await client.get(one)).text
    listed = await open_checked(client, "/overriders", layout="list")
    assert len(re.findall(r"1 finding", listed)) == 1


async def test_a_subject_with_a_finding_is_marked(make_client: MakeClient) -> None:
    one = yurt_app_set()
    one["spec"]["workloadTemplate"] = {}
    page = await open_checked(make_client(one), "/overriders")
    marks = [one for one in links(page) if one.startswith("/overriders/findings?")]
    assert [one for one in marks if "pool=" not in one] == ["/overriders/findings?text=YurtAppSet+default%2Fdemo%3A"]


async def test_the_page_of_a_pool_lists_its_findings(make_client: MakeClient) -> None:
    client = make_client(SET, MISSING)
    before = (await client.get("/overriders/pool", **POOL)).text
    assert "The objects are being checked for findings." in before
    assert 'data-hx-select="#found"' in before
    page = read_text(await open_checked(client, "/overriders/pool", **POOL))
    assert "warning [unknown-container]" in page
    assert "being checked" not in page
    assert "unknown-container" not in read_text(
        await open_checked(client, "/overriders/pool", **{**POOL, "pool": "beijing"})
    )


async def test_the_page_of_a_pool_shows_rollout_managers_and_last_reviews(
    make_client: MakeClient, tmp_path: Path
) -> None:
    running = workload()
    manager = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}}
    running["metadata"] |= {"generation": 1, "managedFields": [manager]}
    running["status"] = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}
    await record_workloads(tmp_path / "records")
    reviews = ReviewIndex(tmp_path / "records")
    await reviews.wait()
    client = make_client(SET, NEW_IMAGE, running, reviews=reviews)
    page = (await client.get("/overriders/pool", **POOL)).text
    text = read_text(page)
    assert "1 of 2 pods are updated, 2 available" in text
    assert "Last events This console reads files. Only an apiserver has Events." in text
    assert "kubectl-edit Update: 1 field spec/paused" in text
    assert [one for one in links(page) if one.startswith("/reviews/review?")] == [
        "/reviews/review?file=reviews.jsonl&line=2"
    ]


async def test_a_pool_without_a_stored_workload_says_so(make_client: MakeClient) -> None:
    page = await make_client(SET, NEW_IMAGE).get("/overriders/pool", **POOL)
    assert "No workload of this node pool is stored." in page.text


async def test_numbers_that_are_not_known_are_not_shown_as_0_and_arrive(make_client: MakeClient) -> None:
    client = make_client(SET, NEW_IMAGE)
    first = (await client.get("/overriders")).text
    totals = first.partition('<ul class="totals"')[2].partition("</ul>")[0]
    assert 'data-hx-get="/overriders"' in totals
    assert "not known yet" in totals
    assert " 0<" not in totals
    for _ in range(1_000):
        page = (await client.get("/overriders")).text
        totals = page.partition('<ul class="totals"')[2].partition("</ul>")[0]
        if "data-hx-get" not in totals:  # The states and the findings are known.
            break
    assert "data-hx-get" not in totals
    assert "All states are known" in page
    assert read_text(f"<ul{totals}").strip() == "error 0 would roll 0 overridden 2 unchanged 0"


async def test_findings_lead_to_their_objects(make_client: MakeClient) -> None:
    client = make_client(SET, MISSING)
    page = (await client.get("/overriders/findings")).text
    found = [one for one in links(page) if one.startswith("/overriders/edit?")]
    assert [(await client.get(one)).status for one in found] == [200, 200]
    assert "now.<wbr>yaml:" in page
    assert (
        "No finding about an overrider or its subject matches."
        in (await client.get("/overriders/findings", level="error")).text
    )


@pytest.mark.parametrize(
    ("path", "query", "part"),
    [
        ("/overriders/findings", {}, "entries[1].items[0]"),
        ("/overriders/pool", POOL, "entries[0].items[0]"),
        ("/overriders/pool", POOL, "entries[1].items[0]"),
    ],
)
async def test_the_name_of_a_part_leads_to_its_line_in_the_editor(
    make_client: MakeClient, path: str, query: dict[str, str], part: str
) -> None:
    edited = overrider(
        entry("*", items=[image("nginx", "nginx:2.0")]), entry("hangzhou", items=[image("nothing", "a:1")])
    )
    client = make_client(SET, edited)
    page = await open_checked(client, path, **query)
    (address,) = {one for one in links(page) if one.endswith(f"&{urlencode({'at': part})}")}
    editor = html.unescape((await client.get(address)).text)
    shown = re.search(r"<textarea[^>]* data-line=\"(\d+)\">\n(.*?)</textarea>", editor, re.DOTALL)
    assert shown is not None
    lines = shown[2].split("\n")
    above = [one.strip() for one in lines[: int(shown[1])]]
    assert (above.count("- items:"), above[-2:]) == (int(part[8]) + 1, ["- items:", "- image:"])
    assert f"{part} begins in line {shown[1]}: - image:" in read_text(editor)


async def test_a_part_that_an_overrider_does_not_have_leads_to_the_part_around_it(make_client: MakeClient) -> None:
    page = (await make_client(SET, NEW_IMAGE).get("/overriders/edit", **OVERRIDER, at="entries[7].items[<b>]")).text
    text = read_text(page)
    assert "The overrider has no entries[7].items[<b>]. The part around it begins in line 3: entries:" in text
    assert "<b>" not in page


async def test_the_differences_of_a_typed_text_lead_to_its_lines(make_client: MakeClient) -> None:
    text = "# a comment\n" + format_overrider(overrider(entry("*", items=[image("nginx", "nginx:3.0")])))
    page = (await type_text(make_client(SET, NEW_IMAGE), text)).text
    found = set(re.findall(r'data-go-to="(\d+)"><bdi>entries\[0\]\.items\[0\]<', page))
    assert found == {str(text.split("\n").index("  - image:") + 1)}


async def test_a_parameter_with_an_unknown_value_has_its_default(make_client: MakeClient) -> None:
    parameters = {"state": "x", "layout": "<b>", "sort": "1", "page": "-3", "columns": "9" * 5_000}
    assert (await make_client(SET).get("/overriders", **parameters)).status == 200


async def test_the_diff_of_a_pool_names_the_entry_of_each_changed_line(make_client: MakeClient) -> None:
    page = (await make_client(SET, NEW_IMAGE).get("/overriders/pool", **POOL)).text
    (row,) = re.findall(r'<tr class="changed">(.*?)</tr>', page, re.DOTALL)
    assert read_text(row).split() == [
        "26",
        "-",
        "image:",
        "nginx:1.0",
        "26",
        "-",
        "image:",
        "nginx:2.0",
        "entries[0].items[0]",
    ]
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
    answer = await make_client(SET).get("/overriders/edit", **OVERRIDER)
    assert answer.status == 404
    assert "there is no YurtAppOverrider default/demo1" in read_text(answer.text)


async def test_a_subject_without_an_overrider_gets_a_new_text(make_client: MakeClient) -> None:
    client = make_client(SET)
    page = (await client.get("/overriders/pool", **POOL)).text
    (address,) = [one for one in links(page) if one.startswith("/overriders/edit?")]
    editor = (await client.get(address)).text
    assert "kind: YurtAppSet\n" in editor
    assert "name: demo\n" in editor


async def test_the_editor_shows_the_effect_of_a_typed_text(make_client: MakeClient) -> None:
    running = rendered(workload(), SET, NEW_IMAGE)
    edited = overrider(entry("*", items=[image("nginx", "nginx:3.0")]))
    client = make_client(SET, NEW_IMAGE, running)
    answer = await type_text(client, format_overrider(edited).replace("\n", "\r\n"))
    text = read_text(answer.text)
    assert answer.status == 200
    assert text.count("2 of 2 compared workloads differ. The edit rolls 1 of 1 workload, 2 pods. ") == 1
    assert (text.count("rolls 1 of"), text.count("workloads differ")) == (1, 1)
    assert "nginx:2.0" in text
    assert "kubectl apply -f - <<'EOF'\napiVersion" in html.unescape(answer.text)
    assert "fleethook diff --against" in text


async def test_without_a_stored_workload_the_effect_is_an_estimate(make_client: MakeClient) -> None:
    text = format_overrider(overrider(entry("*", items=[image("nginx", "nginx:3.0")])))
    page = read_text((await type_text(make_client(SET, NEW_IMAGE), text)).text)
    estimate = "If each workload is as its overrider rendered it, the edit rolls 2 of 2 workloads, 4 pods (node pools "
    assert f"No workload of the subject is stored. {estimate}" in page
    assert "Effects on stored workloads" not in page


async def test_findings_are_at_their_lines(make_client: MakeClient) -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/nothing")]))
    text = format_overrider(broken)
    line = text.split("\n").index("    path: /spec/nothing")
    page = (await type_text(make_client(SET, NEW_IMAGE), text)).text
    assert f'<li class="error" data-line="{line}"' in page
    assert "[does-not-fit]" in page


async def test_a_text_that_is_no_overrider_is_a_problem_at_its_line(make_client: MakeClient) -> None:
    answer = await type_text(make_client(SET, NEW_IMAGE), "kind: Secret\nkind: Secret\n")
    assert answer.status == 200
    assert "Line 2: duplicate key" in read_text(answer.text)
    assert "kubectl apply" not in answer.text


async def test_a_long_text_is_refused(make_client: MakeClient) -> None:
    answer = await type_text(make_client(SET, NEW_IMAGE), "# " + "x" * MAX_TEXT_BYTES)
    assert "longer than 1 MiB" in answer.text


async def test_a_filter_limits_the_compared_pools(make_client: MakeClient) -> None:
    client = make_client(SET, NEW_IMAGE)
    text = format_overrider(overrider(entry("*", items=[{"replicas": 9}])))
    page = read_text((await type_text(client, text, pool="HANG")).text)
    assert "1 of 1 compared workloads differ" in page
    assert "node pool beijing, Deployment" not in page


async def test_the_text_can_be_downloaded(make_client: MakeClient) -> None:
    answer = await type_text(make_client(SET, NEW_IMAGE), "a: 1\r\nb: ü\r\n", path="/overriders/download")
    assert answer.body.decode() == "a: 1\nb: ü\n"
    assert "attachment" in answer.headers["content-disposition"]


@pytest.mark.parametrize("path", ["/overriders/edit", "/overriders/download"])
async def test_a_form_without_the_token_of_its_page_is_refused(make_client: MakeClient, path: str) -> None:
    answer = await make_client(SET, NEW_IMAGE).post(path, {"text": "a: 1"}, **OVERRIDER)
    assert answer.status == 403


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
        ("/overriders", {"layout": "list", "subject": text}),
        ("/overriders", {"subject": text, "pool": text, "state": text}),
        ("/overriders/pool", {**key, "subject": "YurtAppSet", "pool": text, "kind": "Deployment"}),
        ("/overriders/pool", {**key, "subject": text, "pool": text, "kind": text}),
        ("/overriders/edit", {**key, "at": text}),
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
