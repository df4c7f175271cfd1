"""The overview: sources, numbers of objects, and findings that arrive while the page is open."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import list_indexes
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import Store
from fleethook.console.pages.overview import count_objects
from tests.cli.commands import run_command
from tests.console.browser.conftest import has_sideways_scroll
from tests.console.metrics_server import MetricsServer, serving_metrics
from tests.console.pages.reading import HOSTILE
from tests.console.planted_fleet import FAULTS
from tests.serving import EXAMPLES
from tests.waiting import NET


def test_the_overview_shows_objects_and_findings(
    start_console: Callable[..., str], open_page: Callable[..., Any]
) -> None:
    store = Store(list_indexes())
    source = ManifestSource([EXAMPLES], store)
    source.load()
    page = open_page(start_console(EXAMPLES) + "/")
    counts = page.get_by_role("region", name="Objects").locator("tbody tr")
    assert counts.count() == len(count_objects(store))
    # The first visit has the findings computed, and htmx replaces both lists without a reload.
    page.evaluate("window.kept = true")
    findings = page.get_by_role("region", name="Findings").locator("tbody tr")
    findings.first.wait_for(timeout=NET * 1000)
    assert page.evaluate("window.kept")
    page.get_by_text("The objects are being checked").wait_for(state="detached", timeout=NET * 1000)
    rows = json.loads(run_command("lint", "-f", str(EXAMPLES), "--output", "json").stdout)
    totals = Counter((row["level"], row["code"], row["kind"]) for row in rows)
    expected = [(level, code, str(total), kind) for (level, code, kind), total in sorted(totals.items())]
    assert [tuple(row.locator("td").all_inner_texts()) for row in findings.all()] == expected


@pytest.mark.parametrize(("about", "shown"), FAULTS)
def test_a_planted_fault_is_one_click_away(
    fleet_console: str, open_page: Callable[..., Any], about: str, shown: str
) -> None:
    page = open_page(fleet_console + "/")
    lines = page.get_by_role("region", name="Lines that need attention")
    line = lines.get_by_role("link", name=about, exact=True)
    line.first.wait_for(timeout=NET * 1000)
    line.first.click()
    page.wait_for_load_state()
    page.get_by_role("main").get_by_text(shown).first.wait_for(timeout=NET * 1000)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_list_is_accessible_and_has_whole_reasons_in_a_narrow_window(
    fleet_console: str, open_page: Callable[..., Any], find_faults: Callable[[Any], list[str]], width: int
) -> None:
    page = open_page(fleet_console + "/", viewport={"width": width, "height": 844})
    page.get_by_role("region", name="Lines that need attention").wait_for(timeout=NET * 1000)
    page.get_by_text("The objects are being checked").wait_for(state="detached", timeout=NET * 1000)
    assert not has_sideways_scroll(page)
    cut = "all => all.filter(one => one.scrollHeight > one.clientHeight || one.scrollWidth > one.clientWidth).length"
    assert page.locator("td.reason > span").count() > 5
    assert page.locator("td.reason, td.reason > span").evaluate_all(cut) == 0
    assert find_faults(page) == []


@pytest.fixture(scope="module")
def metrics() -> Iterator[MetricsServer]:
    """A server of metrics that answers reviews of hostile outcomes with each scrape."""
    with serving_metrics() as made:
        read = made.read

        def count_and_read() -> bytes:
            for outcome in ("allowed", "denied", *HOSTILE):
                made.count(outcome)
            return read()

        made.read = count_and_read  # type: ignore[method-assign]
        yield made


@pytest.fixture(scope="module")
def sampling(metrics: MetricsServer, start_console: Callable[..., str], tmp_path_factory: Any) -> str:
    """The address of a console that samples the server."""
    manifests: Path = tmp_path_factory.mktemp("manifests")
    return start_console(manifests, "--metrics-url", metrics.url)


def open_charts(open_page: Callable[..., Any], address: str, **options: Any) -> Any:
    """Return a page whose charts are drawn; the fragment asks for itself until there are two samples."""
    page = open_page(f"{address}/?window=1h", **options)
    page.locator("[data-chart] canvas").nth(2).wait_for(timeout=NET * 1000)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_accessible_and_fit_a_narrow_window(
    sampling: str, open_page: Callable[..., Any], find_faults: Callable[[Any], list[str]], scheme: str
) -> None:
    page = open_charts(open_page, sampling, color_scheme=scheme, viewport={"width": 360, "height": 800})
    assert not has_sideways_scroll(page)
    assert find_faults(page) == []
    assert page.locator("[data-chart]").first.get_attribute("role") == "img"
    assert page.get_by_text("last sample").count() == 1


def test_the_lines_of_the_charts_have_pixels_in_the_colours_of_the_theme(
    sampling: str, open_page: Callable[..., Any]
) -> None:
    page = open_charts(open_page, sampling, color_scheme="light")
    count = """(colour) => {
      const canvas = document.querySelector("[data-chart] canvas");
      const wanted = document.createElement("canvas").getContext("2d");
      wanted.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(colour).trim();
      wanted.fillRect(0, 0, 1, 1);
      const [r, g, b] = wanted.getImageData(0, 0, 1, 1).data;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      for (let at = 0; at < data.length; at += 4) found += data[at] === r && data[at + 1] === g && data[at + 2] === b;
      return found;
    }"""
    page.wait_for_function(f'() => ({count})("--link") > 0', timeout=NET * 1000)
    page.get_by_role("button", name="Dark theme").click()
    page.wait_for_function(f'() => ({count})("--link") > 0', timeout=NET * 1000)


KEEP_TEXTS = """
  window.drawn = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    window.drawn.push(text);
    return draw.call(this, text, ...rest);
  };
"""


def test_the_times_of_the_charts_have_the_form_of_the_tables(sampling: str, open_page: Callable[..., Any]) -> None:
    page = open_charts(open_page, sampling, timezone_id="America/New_York", locale="en-US")
    page.add_init_script(KEEP_TEXTS)
    page.reload()
    page.locator("[data-chart] canvas").nth(2).wait_for(timeout=NET * 1000)
    texts = set(page.evaluate("window.drawn")) - set(page.locator(".u-title").all_inner_texts())
    times = {one for one in texts if ":" in one or "-" in one or "/" in one}
    assert times
    assert all(re.fullmatch(r"\d\d:\d\d(:\d\d)?|\d{4}-\d\d-\d\d", one) for one in times)
    page.locator("[data-chart] .u-over").first.hover()
    shown = page.locator("[data-chart] .u-legend").first
    shown.get_by_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")).wait_for()
    assert "Time (UTC)" in shown.inner_text()


def test_charts_follow_new_samples_without_a_reload(sampling: str, open_page: Callable[..., Any]) -> None:
    page = open_charts(open_page, sampling)
    page.evaluate("window.kept = document.querySelector('[data-chart]')")
    page.wait_for_function("() => !window.kept.isConnected", timeout=NET * 1000)
    page.locator("[data-chart] canvas").nth(2).wait_for(timeout=NET * 1000)
    assert page.locator("[data-chart] canvas").count() == 3


def test_hostile_labels_are_text_in_legends(sampling: str, open_page: Callable[..., Any]) -> None:
    page = open_charts(open_page, sampling)
    labels = page.locator("[data-chart]").nth(2).locator(".u-label").all_text_contents()
    for name in HOSTILE:
        assert f"{name} (/s)" in labels
    assert page.locator("[data-chart] img, [data-chart] script").count() == 0


def test_without_javascript_a_table_has_the_figures(sampling: str, open_page: Callable[..., Any]) -> None:
    open_charts(open_page, sampling)
    page = open_page(f"{sampling}/?window=1h", java_script_enabled=False)
    page.locator("summary").click()
    rows = page.get_by_role("region", name="Rates").locator("tbody tr")
    rows.first.wait_for(timeout=NET * 1000)
    assert rows.count() >= 1
    page.get_by_label("Time").select_option("6h")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/?window=6h", timeout=NET * 1000)
