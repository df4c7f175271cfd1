"""The overview: sources, numbers of objects, and findings that arrive while the page is open."""

from collections.abc import Callable
from typing import Any

from app.asgi import INDEXES
from app.console.views.findings import count_findings
from app.console.views.overview import count_objects
from app.store import Store
from app.store.sources.manifests import ManifestSource
from tests.serving import EXAMPLES
from tests.waiting import NET


def test_the_overview_shows_objects_and_findings(
    start_console: Callable[..., str], open_page: Callable[..., Any]
) -> None:
    store = Store(INDEXES)
    source = ManifestSource(EXAMPLES, store)
    source.load()
    page = open_page(start_console(EXAMPLES) + "/")
    counts = page.get_by_role("region", name="Objects").locator("tbody tr")
    assert counts.count() == len(count_objects(store))
    # The first visit has the findings computed, and htmx replaces the card without a reload.
    page.evaluate("window.kept = true")
    findings = page.get_by_role("region", name="Findings").locator("tbody tr")
    findings.first.wait_for(timeout=NET * 1000)
    assert page.evaluate("window.kept")
    expected = [(one.level, one.code, str(one.total), one.kind) for one in count_findings(source.documents())]
    assert [tuple(row.locator("td").all_inner_texts()) for row in findings.all()] == expected
