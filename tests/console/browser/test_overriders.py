"""The overriders page in a browser: the matrix, the difference in a node pool, and an overrider with its findings."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import API, NEW_IMAGE, entry, image, overrider, pool, rendered, workload, yurt_app_set

POOLS = [f"pool-{number:02}" for number in range(30)]
SET = yurt_app_set(pools=[pool(name) for name in POOLS])
RUNNING = [rendered(workload(pool=name), SET, NEW_IMAGE) for name in POOLS[:3]]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202etxt.exe"
POOL = "/overriders/pool?namespace=default&name=demo&subject=YurtAppSet&pool=pool-05&kind=Deployment"


@pytest.fixture(scope="session")
def overriders_console(start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("overriders")
    (directory / "now.yaml").write_text(yaml.safe_dump_all([SET, NEW_IMAGE, *RUNNING], sort_keys=False))
    return start_console(directory)


def test_a_changed_line_leads_to_its_part_of_the_overrider(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + POOL, java_script_enabled=False)
    page.locator("tr.changed").get_by_role("link", name="entries[0].items[0]").click()
    page.locator("tr.changed").filter(has_text="image:").first.wait_for()


def test_the_matrix_is_filtered_and_followed_by_its_address(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + "/overriders", java_script_enabled=False)
    page.get_by_role("columnheader", name="pool-12").wait_for()
    page.get_by_role("searchbox", name="Node pool").fill("pool-2")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**pool=pool-2**")
    assert page.get_by_role("columnheader", name="pool-12").count() == 0
    assert page.locator("tbody td a.cell").count() == 10
    page.locator("tbody td a.cell").nth(5).click()
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


def test_findings_arrive_without_a_reload(start_console: Callable[..., str], tmp_path: Path, open_page: Any) -> None:
    mistake = overrider(entry("pool-03", items=[image("nothing", "nginx:2.0")]))
    (tmp_path / "now.yaml").write_text(yaml.safe_dump_all([SET, mistake], sort_keys=False))
    page = open_page(start_console(tmp_path) + "/overriders")
    page.evaluate("window.kept = true")
    page.get_by_text("Findings of lint: 1.").wait_for()
    page.locator("a.short.finding-warning").wait_for()
    assert page.evaluate("window.kept")


def test_a_narrow_screen_shows_a_unified_difference(overriders_console: str, open_page: Any) -> None:
    page = open_page(overriders_console + POOL, viewport={"width": 390, "height": 844})
    row = page.locator("tr.changed").first
    removed, added = (row.locator(f"td.{name}").bounding_box() for name in ("removed", "added"))
    assert added["x"] == removed["x"]
    assert added["y"] >= removed["y"] + removed["height"]


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
    page.get_by_role("link", name=re.compile("The overrider")).click()
    page.locator("h1").filter(has_text="script").wait_for()
    assert page.locator("img, iframe").count() == 0
