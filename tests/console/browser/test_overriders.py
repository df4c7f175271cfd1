"""The overriders page in a browser: from the matrix to an edit with findings, differences and rollouts."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import API, NEW_IMAGE, entry, image, overrider, patch, pool, rendered, workload, yurt_app_set
from tests.console.browser.conftest import has_sideways_scroll

POOLS = [f"pool-{number:02}" for number in range(30)]
SET = yurt_app_set(pools=[pool(name) for name in POOLS])
RUNNING = [rendered(workload(pool=name), SET, NEW_IMAGE) for name in POOLS[:3]]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202etxt.exe"
EDITOR = "/overriders/edit?namespace=default&name=demo1"
POOL = "/overriders/pool?namespace=default&name=demo&subject=YurtAppSet&pool=pool-05&kind=Deployment"


@pytest.fixture(scope="session")
def overriders_console(start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("overriders")
    (directory / "now.yaml").write_text(yaml.safe_dump_all([SET, NEW_IMAGE, *RUNNING], sort_keys=False))
    return start_console(directory)


def type_text(page: Any, text: str) -> None:
    """Replace the text of the editor as a user does."""
    page.get_by_role("textbox", name="The overrider as YAML").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def dump(document: Any) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def test_an_edit_shows_findings_differences_and_rollouts_while_you_type(
    overriders_console: str, open_page: Any
) -> None:
    page = open_page(overriders_console + "/overriders")
    page.get_by_role("link", name="demo1").click()
    page.locator(".editor").wait_for()
    page.get_by_text("No findings.").wait_for()
    type_text(page, dump(overrider(entry("*", items=[image("nginx", "nginx:3.0")]))))
    page.get_by_text("rolls 3 of 3 workloads, 6 pods").first.wait_for()
    page.get_by_text("30 of 30 compared workloads differ").first.wait_for()
    page.locator("#report pre.added").filter(has_text=re.compile(r"^\s*nginx:3\.0\s*$")).first.wait_for()
    broken = dump(
        overrider(
            entry("*", items=[image("nginx", "nginx:3.0")]),
            entry("pool-07", patches=[patch("remove", "/spec/nothing")]),
        )
    )
    line = broken.split("\n").index("    path: /spec/nothing") + 1
    type_text(page, broken)
    finding = page.locator(f'#findings [data-line="{line - 1}"], #findings [data-line="{line}"]').first
    finding.wait_for()
    finding.filter(has_text="[does-not-fit]").wait_for()
    page.locator(".cm-lint-marker-error").wait_for()
    finding.get_by_role("link").click()
    assert has_cursor_in(page, int(finding.get_attribute("data-line")), broken)


def has_cursor_in(page: Any, number: int, text: str) -> bool:
    """Return whether the focus is in a line of the editor, which it marks and shows; type a comment there."""
    marked, line = page.locator(".cm-activeLine"), text.split("\n")[number - 1]
    marked.filter(has_text=line.strip()).wait_for()
    page.locator(".cm-activeLineGutter").filter(has_text=re.compile(rf"^{number}$")).wait_for()
    assert marked.evaluate("one => getComputedStyle(one).backgroundColor") != "rgba(0, 0, 0, 0)"
    box, window = marked.bounding_box(), page.viewport_size
    assert 0 <= box["y"] < window["height"]
    page.keyboard.press("End")
    page.keyboard.insert_text(" # here")
    typed = page.locator("textarea[name=text]").input_value().split("\n")
    return bool(typed[number - 1] == f"{line} # here")


def test_a_changed_line_leads_to_its_part_in_the_editor(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + POOL, viewport={"width": 1000, "height": 500})
    page.locator("tr.changed").get_by_role("link", name="entries[0].items[0]").click()
    stored = page.locator("textarea[name=text]").input_value()
    number = stored.split("\n").index("  - image:") + 1
    place = page.get_by_text(f"entries[0].items[0] begins in line {number}")
    place.wait_for()
    assert has_cursor_in(page, number, stored)
    page.reload()
    page.get_by_text("This is your text from before").wait_for()
    assert place.is_hidden()
    page.get_by_role("button", name="Show the stored overrider").click()
    place.wait_for()
    assert has_cursor_in(page, number, stored)


def test_without_javascript_the_editor_names_the_line(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + POOL, java_script_enabled=False)
    page.locator("tr.changed").get_by_role("link", name="entries[0].items[0]").click()
    page.get_by_text(re.compile(r"^entries\[0\]\.items\[0\] begins in line \d+: - image:$")).wait_for()


def test_the_text_is_copied_as_yaml_and_as_a_command(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + EDITOR, permissions=["clipboard-read", "clipboard-write"])
    page.locator(".editor").wait_for()
    edited = dump(overrider(entry("*", items=[{"replicas": 7}])))
    type_text(page, edited)
    page.get_by_text("30 of 30 compared workloads differ").first.wait_for()
    page.get_by_role("button", name="Copy as YAML").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == edited
    page.get_by_role("button", name="Copy as kubectl command").click()
    page.get_by_role("button", name="Copied").nth(1).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"kubectl apply -f - <<'EOF'\n{edited}EOF\n"


def test_the_editor_and_the_download_work_without_javascript(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + EDITOR, java_script_enabled=False)
    edited = dump(overrider(entry("*", items=[image("nginx", "nginx:3.0")])))
    page.locator("textarea").fill(edited)
    page.get_by_role("button", name="Show the effect").click()
    page.locator("#report").get_by_text("rolls 3 of 3 workloads, 6 pods").first.wait_for()
    assert page.locator("textarea").input_value() == edited
    assert page.get_by_role("button", name="Copy as YAML").is_hidden()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as YAML").click()
    assert Path(download.value.path()).read_text() == edited


def test_the_matrix_is_filtered_paged_and_followed_by_its_address(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + "/overriders", java_script_enabled=False)
    page.get_by_role("columnheader", name="pool-12").wait_for()
    page.get_by_role("link", name="▾ pool").click()
    page.get_by_role("link", name="would roll").wait_for()
    assert page.get_by_role("columnheader", name="pool-12").count() == 0
    page.get_by_role("link", name="▸ pool").click()
    page.get_by_role("searchbox", name="Node pool").fill("pool-2")
    page.get_by_label("Show as").select_option("list")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**pool=pool-2**")
    assert page.locator("tbody tr").count() == 10
    page.get_by_role("link", name="pool-25").click()
    page.locator("tr.changed").filter(has_text="entries[0].items[0]").wait_for()
    page.locator("tr.changed td.added").filter(has_text="nginx:2.0").wait_for()


def test_40_subjects_in_30_pools_fit_a_screen(
    start_console: Callable[..., str], tmp_path: Path, open_page: Any
) -> None:
    subjects = [yurt_app_set(f"subject-{number:02}", pools=[pool(name) for name in POOLS]) for number in range(40)]
    (tmp_path / "now.yaml").write_text(yaml.safe_dump_all(subjects, sort_keys=False))
    page = open_page(start_console(tmp_path) + "/overriders", viewport={"width": 1440, "height": 900})
    last = page.locator("tbody tr").nth(39).locator("td a").last.bounding_box()
    assert last["x"] + last["width"] <= 1440
    assert last["y"] + last["height"] <= 900


def test_states_and_findings_arrive_without_a_reload(
    start_console: Callable[..., str], tmp_path: Path, open_page: Any
) -> None:
    mistake = overrider(entry("pool-03", items=[image("nothing", "nginx:2.0")]))
    (tmp_path / "now.yaml").write_text(yaml.safe_dump_all([SET, mistake], sort_keys=False))
    page = open_page(start_console(tmp_path) + "/overriders")
    page.evaluate("window.kept = true")
    page.get_by_text("All states are known.").wait_for()
    page.get_by_role("link", name="Findings of lint: 1").wait_for()
    page.locator("a.cell.marked-warning").wait_for()
    assert page.evaluate("window.kept")


def test_a_narrow_screen_shows_a_unified_difference(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + POOL, viewport={"width": 390, "height": 844})
    row = page.locator("tr.changed").first
    removed, added = (row.locator(f"td.{name}").bounding_box() for name in ("removed", "added"))
    assert added["x"] == removed["x"]
    assert added["y"] >= removed["y"] + removed["height"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/overriders", "/overriders?layout=list", POOL, f"{EDITOR}&at=entries[0].items[0]"])
def test_the_pages_are_accessible_and_fit_a_phone(
    overriders_console: str, open_page: Any, find_faults: Any, path: str, scheme: str
) -> None:
    page = open_page(overriders_console + path, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    if path.startswith(EDITOR):
        page.locator(".editor").wait_for()
    assert find_faults(page) == []
    assert not has_sideways_scroll(page)


def test_the_findings_of_the_editor_are_accessible(overriders_console: str, open_page: Any, find_faults: Any) -> None:
    page = open_page(overriders_console + EDITOR)
    page.locator(".editor").wait_for()
    type_text(page, dump(overrider(entry("nowhere", items=[image("nginx", "nginx:3.0")]))))
    page.locator("#findings li.error").first.wait_for()
    assert find_faults(page) == []


def test_data_of_a_cluster_is_text(start_console: Callable[..., str], tmp_path: Path, open_page: Any) -> None:
    subject = yurt_app_set(HOSTILE, pools=[pool(HOSTILE)])
    named = {"apiVersion": API, "kind": "YurtAppSet", "name": HOSTILE}
    one = overrider(
        entry(HOSTILE, items=[image("nginx", HOSTILE)]), name=HOSTILE, subject=named, annotations={"a": HOSTILE}
    )
    (tmp_path / "now.yaml").write_text(yaml.safe_dump_all([subject, one]))
    page = open_page(start_console(tmp_path) + "/overriders")
    assert HOSTILE in page.locator("tbody").inner_text()
    page.locator("tbody td a").nth(1).click()
    page.locator("h1").filter(has_text="script").wait_for()
    page.get_by_role("link", name=re.compile("Edit the overrider")).click()
    page.locator(".editor").wait_for()
    type_text(page, dump({**one, "entries": [{"pools": [HOSTILE], HOSTILE: HOSTILE}]}))
    page.locator("#findings li.error").first.wait_for()
    assert page.locator("img, iframe").count() == 0
