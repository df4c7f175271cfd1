"""The main task of the page about reviews: find one, look at it, and ask it again."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import workload
from tests.console.browser.conftest import has_sideways_scroll
from tests.console.recorded import objects, record_workloads
from tests.waiting import wait_for

MANY = 1_200


@pytest.fixture(scope="module")
def recorded(start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a console whose objects have another image than the recorded reviews."""
    records, manifests = tmp_path_factory.mktemp("records"), tmp_path_factory.mktemp("objects")
    # The browser's library runs an event loop in this thread.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, record_workloads(records, workload(owners=[]))).result()
    (Path(manifests) / "all.yaml").write_text(yaml.safe_dump_all(objects("3.0")))
    return start_console(manifests, "--records", str(records))


@pytest.fixture(scope="module")
def many_recorded(start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a console with more recorded reviews than one request asks again."""
    records, manifests = tmp_path_factory.mktemp("records"), tmp_path_factory.mktemp("objects")
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, record_workloads(records, workload(owners=[]))).result()
    file = records / "reviews.jsonl"
    head, *lines = file.read_text().splitlines(keepends=True)
    changed, same = sorted(lines, key=lambda line: "u-1" in line)
    file.write_text(head + same + changed * (MANY - 1))
    (Path(manifests) / "all.yaml").write_text(yaml.safe_dump_all(objects("3.0")))
    return start_console(manifests, "--records", str(records))


def open_list(open_page: Callable[..., Any], address: str, **options: Any) -> Any:
    """Open the list of reviews, again until the console has read the recordings."""
    page = open_page(f"{address}/reviews", **options)

    def has_reviews() -> bool:
        page.reload()
        return bool(page.get_by_role("button", name="Ask them again").count())

    wait_for(has_reviews, what="the console has read the recordings")
    return page


def test_a_review_is_found_and_asked_again(
    recorded: str, open_page: Callable[..., Any], find_faults: Callable[..., Any]
) -> None:
    page = open_list(open_page, recorded)
    page.get_by_label("Verdict").select_option("patched")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**verdict=patched**")
    assert find_faults(page) == []
    page.locator("tbody a").first.click()
    page.get_by_text("nginx:2.0").first.wait_for()
    page.get_by_role("link", name="Ask the review again").click()
    page.get_by_text("The outcome differs").wait_for()
    page.locator(".line.added").get_by_text("nginx:3.0").first.wait_for()
    assert find_faults(page) == []


def test_a_search_is_asked_again_as_a_table_of_changes(
    recorded: str, open_page: Callable[..., Any], find_faults: Callable[..., Any]
) -> None:
    page = open_list(open_page, recorded, viewport={"width": 360, "height": 740}, java_script_enabled=False)
    assert not has_sideways_scroll(page)
    page.get_by_role("button", name="Ask them again").click()
    page.get_by_text("1 same, 1 changed").wait_for()
    assert not has_sideways_scroll(page)
    page = open_page(f"{recorded}/reviews/replay")
    page.get_by_text("All asked: 2 reviews.").wait_for()
    assert find_faults(page) == []


def test_a_long_batch_shows_its_progress_and_can_be_stopped(many_recorded: str, open_page: Callable[..., Any]) -> None:
    page = open_list(open_page, many_recorded)
    page.get_by_role("button", name="Ask them again").click()
    page.get_by_text(f"All asked: {MANY:,} reviews.").wait_for()
    page.get_by_text(f"{MANY - 1} changed").wait_for()
    page.get_by_text(f"Without a link here: {MANY - 1_001}").wait_for()
    page = open_page(f"{many_recorded}/reviews/replay?sort=oldest", java_script_enabled=False)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped after").wait_for()
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("link", name="Ask further ones").wait_for()
